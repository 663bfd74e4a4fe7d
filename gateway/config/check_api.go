package config

import (
	"fmt"
	"net"
	"reflect"
	"slices"
	"strings"
)

func checkAPI(d *decoder, target any) {
	a := target.(*apiDraft)
	if d.lang == inHCL && d.given(a, "address") && !d.broken(a, "address") {
		b, err := parseBind(a.Address)
		if err != nil {
			d.complain(a, "address", err.Error(), `"host:port" is expected, such as "127.0.0.1:18888"`)
		} else {
			a.Address = b.String()
		}
	}
	if a.host != "" {
		if host := strings.Trim(a.host, "[]"); isBindHost(host) {
			a.host = host
		} else {
			d.complain(a, "listen_address", fmt.Sprintf("is %s, which is neither an address nor a host name", quote(a.host)), "the port has a field of its own")
		}
	}
	sure := func(keys ...string) bool {
		return !slices.ContainsFunc(keys, func(key string) bool { return d.broken(a, key) })
	}
	if sure("request_deadline", "upstream_timeout") && a.RequestDeadline < a.UpstreamTimeout {
		d.complain(a, "request_deadline", fmt.Sprintf("is %s, less than upstream_timeout, %s", timeText(a.RequestDeadline), timeText(a.UpstreamTimeout)),
			"a request has to last at least as long as one attempt")
	}
	if sure("request_deadline", "upstream_queue") && a.UpstreamQueue > a.RequestDeadline {
		d.complain(a, "upstream_queue", fmt.Sprintf("is %s, more than request_deadline, %s", timeText(a.UpstreamQueue), timeText(a.RequestDeadline)),
			"a request must not wait longer than it lasts")
	}
}

func checkCORS(d *decoder, target any) {
	c := target.(*CORS)
	for key, value := range map[string]string{"allow_origin": c.AllowOrigin, "allow_headers": c.AllowHeaders} {
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r > '~' }) {
			d.complain(c, key, fmt.Sprintf("is %s, which no HTTP header can hold", quote(value)), "printable ASCII is expected")
		}
	}
	if c.AllowCredentials && strings.TrimSpace(c.AllowOrigin) == "*" {
		d.strict(c, "allow_credentials", `is true for the origin "*", a pair that browsers refuse`, "name the origin")
	}
}

// checkListenerAPI looks at the chain API together with its listener, and
// hands it over.
func checkListenerAPI(d *decoder, l *draft) {
	if l.api == nil {
		checkIdleAPI(d, l)
		return
	}
	a := l.api
	if a.host == "" {
		a.host = l.host
	}
	if d.lang == inJSON && a.port > 0 {
		a.Address = bind{a.host, uint16(a.port)}.String()
	}
	if a.TLS == nil {
		a.TLS = l.TLS
	}
	usable := map[string]bool{}
	served := false
	for _, s := range l.Servers {
		if s.Enabled && s.APIEndpoint != "" {
			served = true
			usable[s.Name] = usable[s.Name] || s.Role == Live
		}
	}
	if !served && !d.broken(l, "server") {
		d.complain(l, "chain_api", "is on, but no enabled server has an api_endpoint", "give a server its api_endpoint")
	}
	if d.given(a, "push_servers") && !d.broken(a, "push_servers") {
		checkPushServers(d, a, usable)
	}
	l.ChainAPI = &a.ChainAPI
	adviseAPI(d, l, a)
}

// adviseAPI warns of what a chain API does that may not be wanted (spec "config"
// 3.5).
func adviseAPI(d *decoder, l *draft, a *apiDraft) {
	live := false
	for _, s := range l.Servers {
		live = live || s.Enabled && s.Role == Live && s.APIEndpoint != ""
		if s.Enabled && s.Role == Frozen && s.APIEndpoint == "" {
			d.advise(s, "", "is left out of the chain API, because it has no api_endpoint", "give it one, unless it has no block log")
		}
	}
	if !live && !d.broken(l, "server") {
		d.advise(l, "chain_api", "has no live server with an api_endpoint, so get_info, state calls, pushes and reversible blocks get 503", "")
	}
	if slices.Contains(a.Allow, "push") {
		d.advise(a, "allow", "has push: whoever reaches the port can have transactions relayed", "")
	}
	if host, _, err := net.SplitHostPort(a.Address); err == nil && isWildcard(host) {
		d.advise(l, "chain_api", fmt.Sprintf("listens on %s, all interfaces, and does not ask who calls", a.Address), "give an address that only the callers reach")
	}
}

func checkPushServers(d *decoder, a *apiDraft, usable map[string]bool) {
	if len(a.PushServers) > 0 && !slices.Contains(a.Allow, "push") && !d.broken(a, "allow") {
		d.complain(a, "push_servers", `is given, but allow lacks "push"`, `add "push" to allow, or leave this out`)
	}
	for i, name := range a.PushServers {
		switch {
		case slices.Contains(a.PushServers[:i], name):
			d.complain(a, "push_servers", "repeats "+quote(name), "each may be given once")
		case !usable[name]:
			d.complain(a, "push_servers", fmt.Sprintf("has %s, which cannot be used", quote(name)), "the name of an enabled live server with an api_endpoint is expected")
		}
	}
}

// checkIdleAPI warns once of API endpoints that nothing uses.
func checkIdleAPI(d *decoder, l *draft) {
	for _, s := range l.Servers {
		if s.APIEndpoint != "" && !d.given(l, "chain_api") {
			d.advise(s, "api_endpoint", "has no effect as long as the listener has no chain_api", "")
			return
		}
	}
}

// ownTLS is the chain API without the TLS that it has from its listener.
func (l *Listener) ownTLS() *ChainAPI {
	if l.ChainAPI == nil {
		return nil
	}
	own := *l.ChainAPI
	if reflect.DeepEqual(own.TLS, l.TLS) {
		own.TLS = nil
	}
	return &own
}
