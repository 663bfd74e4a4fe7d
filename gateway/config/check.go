package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"flotilla/gateway/ship"
)

// acceptListener refuses protocols that this version does not serve.
func acceptListener(d *decoder, n *node, prefix string) bool {
	protocol := n.member("protocol")
	if d.lang == inJSON || protocol == nil || protocol.text == "ship" {
		return true
	}
	d.report.problem(protocol.at, fmt.Sprintf("%sis of the unknown kind %s", prefix, quote(protocol.text)),
		`write listener "ship" "name" { ... } or listener "evm" "name" { ... }`)
	return false
}

// maxUsualPace is above any interval that was written on purpose.
const maxUsualPace = 10 * time.Minute

func checkPace(d *decoder, target any) {
	l := paceOf(target)
	for key, value := range map[string]time.Duration{
		"upstream_reconnect": l.Reconnect, "upstream_monitoring": l.Monitoring, "upstream_status": l.Status,
	} {
		if d.given(target, key) && !d.broken(target, key) && value > maxUsualPace {
			d.advise(target, key, "is "+timeText(value)+", which is unusually long", "a few seconds are usual")
		}
	}
}

func paceOf(target any) *Listener {
	if doc, ok := target.(*document); ok {
		return &doc.top.Listener
	}
	return &target.(*draft).Listener
}

func checkListener(d *decoder, target any) {
	l := target.(*draft)
	checkLabel(d, l, l.Name)
	checkAddress(d, l)
	if d.lang == inHCL {
		checkPace(d, l)
	}
	if l.RequireChainID && !d.given(l, "chain_id") {
		d.complain(l, "require_chain_id", "is on, but no chain_id is given", "give the chain_id, or leave this out")
	}
	checkServers(d, l)
	checkTopology(d, l)
	checkListenerAPI(d, l)
	checkPinned(d, l)
}

func checkPinned(d *decoder, l *draft) {
	if !d.given(l, "chain_id") && !l.Stitched() {
		d.advise(l, "chain_id", "is not given, so the server that is online first decides which chain this is",
			"pin it, so that servers of another chain stay offline")
	}
}

// checkLabel is about the name of a listener of any kind.
func checkLabel(d *decoder, target any, name string) {
	if name == "" || d.broken(target, "name") {
		return
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r == '/' || unicode.IsSpace(r) }) {
		d.complain(target, "name", fmt.Sprintf("%s has a slash or white space", quote(name)), "the name is part of URLs and metrics: eos-mainnet, say")
	}
}

// checkAddress sets l.Address from what either language gives.
func checkAddress(d *decoder, l *draft) {
	if d.lang == inHCL {
		if d.given(l, "address") && !d.broken(l, "address") {
			b, err := parseBind(l.Address)
			if err != nil {
				d.complain(l, "address", err.Error(), `"host:port" is expected, such as "0.0.0.0:17000"`)
				return
			}
			l.Address = b.String()
		}
		return
	}
	if host := strings.Trim(l.host, "[]"); host == "" || isBindHost(host) {
		l.host = host
	} else {
		d.complain(l, "listen_address", fmt.Sprintf("is %s, which is neither an address nor a host name", quote(l.host)),
			"the port has a field of its own")
		return
	}
	if l.host == "" {
		l.host = wildcard
	}
	if l.port > 0 {
		l.Address = bind{l.host, uint16(l.port)}.String()
	}
}

func checkServers(d *decoder, l *draft) {
	if d.broken(l, "server") {
		return
	}
	enabled := slices.DeleteFunc(slices.Clone(l.Servers), func(s *Server) bool { return !s.Enabled })
	switch {
	case len(l.Servers) == 0 && d.lang == inHCL:
		d.complain(l, "server", "is missing", `at least one block, server "name" { endpoint = "host:port" }, is expected`)
	case len(l.Servers) == 0:
		d.complain(l, "server", "is missing or empty", "at least one server is expected")
	case len(enabled) == 0:
		d.complain(l, "server", "has no entry that is enabled", "at least one enabled server is needed")
	case !slices.ContainsFunc(enabled, func(s *Server) bool { return s.URL != "" || d.given(s, "endpoint") }):
		d.advise(l, "server", "has no enabled entry with an endpoint, so clients find nothing behind this port", "give an endpoint")
	}
	names := map[string]bool{}
	for _, s := range l.Servers {
		switch {
		case d.broken(s, "name"):
		case strings.TrimSpace(s.Name) == "":
			d.strict(s, "name", "is blank", "logs and metrics tell servers apart by their names")
		case names[s.Name]:
			d.strict(s, "name", fmt.Sprintf("%s is the name of another server, too", quote(s.Name)), "logs and metrics tell servers apart by their names")
		}
		names[s.Name] = true
	}
	checkUnique(d, enabled)
}

// checkUnique looks for targets that two servers share.
func checkUnique(d *decoder, enabled []*Server) {
	ships, apis := map[string]*Server{}, map[string]*Server{}
	for _, s := range enabled {
		if s.URL != "" {
			e, _ := parseEndpoint(s.Endpoint)
			if first := ships[e.key()]; first != nil {
				d.complain(s, "endpoint", fmt.Sprintf("%s is the same as %s of server %s", quote(s.Endpoint), quote(first.Endpoint), quote(first.Name)),
					"each endpoint may be given once; ws:// and the default port need not be written to count")
			} else {
				ships[e.key()] = s
			}
		}
		if s.APIEndpoint != "" {
			key := strings.ToLower(s.APIEndpoint)
			if first := apis[key]; first != nil {
				d.complain(s, "api_endpoint", fmt.Sprintf("%s is that of server %s, too", quote(s.APIEndpoint), quote(first.Name)), "each may be given once")
			} else {
				apis[key] = s
			}
		}
	}
}

func checkServer(d *decoder, target any) {
	s := target.(*Server)
	checkEndpoint(d, s)
	if s.APIEndpoint != "" || d.given(s, "api_endpoint") && !d.broken(s, "api_endpoint") {
		api, err := parseAPIEndpoint(s.APIEndpoint)
		if err != nil {
			d.complain(s, "api_endpoint", err.Error(), apiForms)
		}
		s.APIEndpoint = api
	}
	if !d.given(s, "range") || d.broken(s, "range") || s.Range == nil {
		return
	}
	switch {
	case s.Role != Frozen && !d.broken(s, "role"):
		d.complain(s, "range", "is given for a live server, whose range moves", `only a server with the role "frozen" has one`)
	case d.incomplete(s.Range):
	case s.Range.Begin == 0 || s.Range.Begin >= s.Range.End:
		d.complain(s, "range", fmt.Sprintf("has begin %d and end %d", s.Range.Begin, s.Range.End),
			"begin is at least 1, and end is the first block behind the range")
	}
}

// incomplete reports whether a range was complained about already.
func (d *decoder) incomplete(r *Range) bool {
	return !d.given(r, "begin") || !d.given(r, "end") || d.broken(r, "begin") || d.broken(r, "end")
}

func checkEndpoint(d *decoder, s *Server) {
	if d.broken(s, "endpoint") {
		return
	}
	if strings.TrimSpace(s.Endpoint) == "" {
		s.Endpoint = ""
		switch {
		case !s.Enabled:
		case s.Role == Frozen:
			d.complain(s, "endpoint", "is missing, and a frozen server cannot do without one", endpointForms)
		case !d.given(s, "api_endpoint"):
			d.complain(s, "endpoint", "is blank", endpointForms)
		}
		return
	}
	e, err := parseEndpoint(s.Endpoint)
	if err != nil {
		d.complain(s, "endpoint", err.Error(), endpointForms)
		return
	}
	s.URL = e.url()
	if e.user != "" {
		d.strict(s, "endpoint", fmt.Sprintf("%s has a user name, which is not sent to the server", quote(s.Endpoint)), "leave out what stands before the @")
	}
	if e.noPort {
		d.advise(s, "endpoint", fmt.Sprintf("%s has no port, so %d is used", quote(s.Endpoint), e.port), "write the port")
	}
	if e.fragment {
		d.advise(s, "endpoint", fmt.Sprintf("%s has a part behind #, which is not sent to the server", quote(s.Endpoint)), "leave it out")
	}
}

func checkTopology(d *decoder, l *draft) {
	if d.broken(l, "topology") || d.broken(l, "server") {
		return
	}
	if l.Topology == TopologyPool {
		for _, s := range l.Servers {
			if s.Enabled && s.Role == Frozen {
				d.complain(s, "role", `is "frozen", which the topology "pool" does not allow`, `"stitched" and "auto" do`)
			}
		}
	}
	if !l.Stitched() {
		if d.given(l, "stitching") {
			d.advise(l, "stitching", "has no effect, because the topology is pool", `a server with the role "frozen" makes it stitched`)
		}
		return
	}
	if !d.given(l, "chain_id") {
		why := `the topology is "stitched"`
		if l.Topology == TopologyAuto {
			why = "a server is frozen"
		}
		d.complain(l, "chain_id", "is missing: "+why+", and archives have to be of the right chain", "give the 64 hex digits of the chain id")
	}
	checkArchives(d, l)
}

// checkArchives warns of what a stitched listener will lack.
func checkArchives(d *decoder, l *draft) {
	live := false
	var declared []Range
	for _, s := range l.Servers {
		switch {
		case !s.Enabled:
		case s.Role == Live:
			live = true
		case s.Range == nil && !d.broken(s, "range"):
			d.advise(s, "range", "is not given, so status requests wait while this server is down at start", "give the range of the archive")
		case s.Range != nil && !d.incomplete(s.Range):
			declared = append(declared, *s.Range)
		}
	}
	if !live {
		d.advise(l, "server", "has no live entry, so the last block of the archives is the head, and a session that has reached it waits there", "")
	}
	slices.SortFunc(declared, func(a, b Range) int { return cmp.Compare(a.Begin, b.Begin) })
	for i, end := 0, uint32(0); i < len(declared); i++ {
		if i > 0 && declared[i].Begin > end {
			d.advise(l, "server", fmt.Sprintf("leaves the range [%d, %d), which no archive declares", end, declared[i].Begin), "")
		}
		end = max(end, declared[i].End)
	}
}

func checkStitching(d *decoder, target any) {
	s := target.(*Stitching)
	if s.ABIFile == "" {
		return
	}
	text, err := readText(s.ABIFile)
	if err != nil {
		d.complain(s, "abi_file", "cannot be used: "+err.Error(), "")
		return
	}
	if _, err := ship.ParseABI([]byte(text)); err != nil {
		d.complain(s, "abi_file", fmt.Sprintf("%s is not the ABI of a SHiP node: %v", quote(s.ABIFile), err), "")
		return
	}
	s.ABI = text
}
