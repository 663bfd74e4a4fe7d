package admin

import (
	"net/http"
	"strings"
)

// The scopes of a readiness check (1.3).
const (
	scopeTip     = "tip"
	scopeHistory = "history"
	scopeAPI     = "api"
)

// scopeOf reads the scope parameter, which is not percent-decoded: the first
// pair that starts with it decides. It reports false for an unknown one.
func scopeOf(query string) (scope string, ok bool) {
	for pair := range strings.SplitSeq(query, "&") {
		value, found := strings.CutPrefix(pair, "scope=")
		if !found {
			continue
		}
		switch value {
		case "":
			return scopeTip, true
		case scopeTip, scopeHistory, scopeAPI:
			return value, true
		}
		return value, false
	}
	return scopeTip, true
}

// noChainAPI is the reason for scope api: no listener serves a chain API.
const noChainAPI = "no chain API configured"

// checkScope answers what does not depend on any upstream: bad scopes, a
// shutdown, and scope api. It reports false when the upstreams decide. The
// scopes tip and history are the same thing for a pool.
func checkScope(st *State, r *http.Request, notReady string) (answer, bool) {
	switch scope, ok := scopeOf(r.URL.RawQuery); {
	case !ok:
		return line(http.StatusBadRequest, "unknown scope '%s'; use tip, history or api", scope), true
	case st.Draining:
		return line(http.StatusServiceUnavailable, "not ready: shutting down"), true
	case scope == scopeAPI:
		return line(http.StatusServiceUnavailable, "%s: %s", notReady, noChainAPI), true
	}
	return answer{}, false
}

// ready is the check over all listeners.
func ready(st *State, r *http.Request) answer {
	if a, done := checkScope(st, r, "not ready"); done {
		return a
	}
	online := 0
	var failing []string
	for _, l := range st.Listeners {
		n := l.Fleet.View().Online()
		if n == 0 {
			failing = append(failing, l.Config.Name)
		}
		online += n
	}
	switch {
	case st.Single && len(failing) > 0:
		return line(http.StatusServiceUnavailable, "not ready: no upstreams online")
	case len(failing) > 0:
		return line(http.StatusServiceUnavailable, "not ready: listener(s) with no online upstreams: %s", strings.Join(failing, ", "))
	case st.Single:
		return line(http.StatusOK, "ready: %d upstream(s) online", online)
	default:
		return line(http.StatusOK, "ready: %d listener(s) ready, %d upstream(s) online", len(st.Listeners), online)
	}
}

// readyOf is the check of one listener.
func readyOf(name string) route {
	return func(st *State, r *http.Request) answer {
		l := st.listener(name)
		if l == nil {
			return notFound
		}
		if a, done := checkScope(st, r, "not ready ("+name+")"); done {
			return a
		}
		n := l.Fleet.View().Online()
		if n == 0 {
			return line(http.StatusServiceUnavailable, "not ready (%s): no upstreams online", name)
		}
		return line(http.StatusOK, "ready (%s): %d upstream(s) online", name, n)
	}
}
