package config

import (
	"fmt"
	"strings"
)

func checkAdmin(d *decoder, target any) {
	a := target.(*Admin)
	if !d.given(a, "address") || d.broken(a, "address") {
		return
	}
	b, err := parseBind(a.Address)
	if err != nil {
		d.complain(a, "address", err.Error(), `"host:port" is expected, such as "127.0.0.1:9090"`)
		return
	}
	a.Address = b.String()
}

// minToken is the least length of a control token, in bytes.
const minToken = 16

func checkDashboard(d *decoder, target any) {
	b := target.(*Dashboard)
	if d.given(b, "control_token") && d.given(b, "control_token_file") {
		d.complain(b, "control_token_file", "and control_token are both given", "leave one of them out")
	}
	if d.given(b, "control_token") && !d.broken(b, "control_token") && len(b.ControlToken) < minToken {
		d.complain(b, "control_token", "is too short", fmt.Sprintf("at least %d characters are expected", minToken))
	}
	for i, host := range b.AllowedHosts {
		b.AllowedHosts[i] = strings.ToLower(strings.TrimSpace(host))
	}
	if b.Enabled {
		d.advise(b, "", "has no page: this version does not serve it, but only the control of upstreams", "")
	}
}

// finishHCL checks what concerns the whole file.
func finishHCL(d *decoder, doc *document) {
	if !d.given(doc, "listener") {
		d.report.problem(d.records[doc].at, "listener is missing", `at least one block, listener "ship" "name" { ... } or listener "evm" "name" { ... }, is expected`)
	}
	finish(d, doc)
}

// onlyInListeners are the fields that a JSON file with listeners must not have
// at its top.
var onlyInListeners = []string{"chain_id", "quarantine", "stitching", "chain_api"}

// finishJSON resolves the two modes of a fleet-router file.
func finishJSON(d *decoder, doc *document) {
	d.records[&doc.top] = d.records[doc]
	checkPace(d, doc)
	if d.given(doc, "listener") && (len(doc.listeners) > 0 || d.broken(doc, "listener")) {
		checkTopOfMany(d, doc)
	} else {
		checkTopOfOne(d, doc)
	}
	if d.given(doc, "metrics_port") && !d.broken(doc, "metrics_port") {
		host := strings.Trim(doc.adminHost, "[]")
		if host == "" {
			host = doc.top.host
		}
		if host == "" && len(doc.listeners) > 0 {
			host = doc.listeners[0].host
		}
		if host == "" {
			host = wildcard
		}
		if !isBindHost(host) {
			d.complain(doc, "metrics_address", fmt.Sprintf("is %s, which is neither an address nor a host name", quote(host)), "the port has a field of its own")
		}
		doc.config.Admin = &Admin{Address: bind{host, uint16(doc.adminPort)}.String(), Dashboard: doc.dashboard}
	} else if doc.dashboard != nil && doc.dashboard.Enabled && !d.broken(doc, "metrics_port") {
		d.complain(doc.dashboard, "enabled", "is true, but there is no metrics_port", "give the metrics_port that serves it")
	}
	finish(d, doc)
}

// checkTopOfOne makes the top of the file the one listener.
func checkTopOfOne(d *decoder, doc *document) {
	l := &doc.top
	doc.config.Single = true
	doc.listeners = []*draft{l}
	if l.host == "" && !d.broken(l, "listen_address") {
		d.complain(l, "listen_address", "is blank", `an address is expected, such as "0.0.0.0"`)
	}
	if l.port == 0 && !d.broken(l, "listen_port") {
		d.complain(l, "listen_port", "is 0 or missing", fmt.Sprintf("a port from 1 to %d is expected", maxPort))
	}
	checkListener(d, l)
	l.Name = "default"
}

func checkTopOfMany(d *decoder, doc *document) {
	const hint = "give it in every entry of listeners"
	for _, key := range onlyInListeners {
		if d.given(doc, key) {
			d.complain(doc, key, "does not go with listeners", hint)
		}
	}
	if doc.top.port != 0 {
		d.complain(doc, "listen_port", "does not go with listeners", hint)
	}
	if doc.top.RequireChainID {
		d.complain(doc, "require_chain_id", "does not go with listeners", hint)
	}
	if doc.top.Topology != TopologyAuto {
		d.complain(doc, "topology", "does not go with listeners", hint)
	}
	if len(doc.top.Servers) > 0 {
		d.complain(doc, "server", "does not go with listeners", "each server belongs under a listener")
	}
	host := strings.Trim(doc.top.host, "[]")
	if host != "" && !isBindHost(host) {
		d.complain(doc, "listen_address", fmt.Sprintf("is %s, which is neither an address nor a host name", quote(host)), "the port has a field of its own")
	}
	doc.top.host = host
}

// finish checks what listeners share, and builds the Config.
func finish(d *decoder, doc *document) {
	names := map[string]bool{}
	for _, l := range doc.listeners {
		if names[l.Name] && l.Name != "" {
			d.complain(l, "name", fmt.Sprintf("%s is the name of another listener, too", quote(l.Name)), "each name may be given once")
		}
		names[l.Name] = true
		doc.config.Listeners = append(doc.config.Listeners, &l.Listener)
	}
	for _, l := range doc.evm {
		if names[l.Name] && l.Name != "" {
			d.complain(l, "name", fmt.Sprintf("%s is the name of another listener, too", quote(l.Name)), "each name may be given once")
		}
		names[l.Name] = true
		doc.config.EVM = append(doc.config.EVM, &l.EVM)
	}
	checkBinds(d, doc)
}

// taken is an address that something listens on.
type taken struct {
	bind
	what string
}

func checkBinds(d *decoder, doc *document) {
	var all []taken
	add := func(target any, key, address, what string) {
		b, err := parseBind(address)
		if err != nil {
			// Complained about already, or missing.
			return
		}
		for _, other := range all {
			if b.clashes(other.bind) {
				d.complain(target, key, fmt.Sprintf("is %s, which clashes with %s on %s", b, other.what, other.bind), "give each port to one of them")
				return
			}
		}
		all = append(all, taken{b, what})
	}
	key, adminKey := "address", "address"
	if d.lang == inJSON {
		key, adminKey = "listen_port", "metrics_port"
	}
	what := func(l *draft) string {
		if doc.config.Single {
			return "the listener"
		}
		return "the listener " + quote(l.Name)
	}
	for _, l := range doc.listeners {
		add(l, key, l.Address, what(l))
	}
	for _, l := range doc.evm {
		add(l, key, l.Address, "the listener "+quote(l.Name))
		if l.Management != nil {
			add(l.Management, key, l.Management.Address, "the management API of the listener "+quote(l.Name))
		}
	}
	if admin := doc.config.Admin; admin != nil {
		target := any(admin)
		if d.lang == inJSON {
			target = doc
		}
		add(target, adminKey, admin.Address, "the admin port")
	}
	for _, l := range doc.listeners {
		if l.api != nil {
			add(l.api, key, l.api.Address, "the chain API of "+what(l))
		}
	}
}
