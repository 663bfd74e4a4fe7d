package admin

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/ship"
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

// checkScope answers what does not depend on any upstream, bad scopes and a
// shutdown, and scope api, which has upstreams of its own. of is the listener
// that is asked for, nil for all. It reports false when the upstreams decide;
// history is then whether the archives count, too.
func checkScope(st *State, of *Listener, r *http.Request, notReady string) (a answer, history, done bool) {
	switch scope, ok := scopeOf(r.URL.RawQuery); {
	case !ok:
		return line(http.StatusBadRequest, "unknown scope '%s'; use tip, history or api", scope), false, true
	case st.Draining:
		return line(http.StatusServiceUnavailable, "not ready: shutting down"), false, true
	case scope == scopeAPI:
		return readyAPI(st, of, notReady), false, true
	default:
		return answer{}, scope == scopeHistory, false
	}
}

// ready is the check over all listeners.
func ready(st *State, r *http.Request) answer {
	return withPolicies(readyAll(st, r), st.Listeners, st.EVM)
}

func readyAll(st *State, r *http.Request) answer {
	a, history, done := checkScope(st, nil, r, "not ready")
	if done {
		return a
	}
	online := 0
	pools := true // all that fail are pools
	var failing, told []string
	for i := range st.Listeners {
		l := &st.Listeners[i]
		v := l.Fleet.View()
		online += v.Online()
		if why := unready(l, v, history); why != "" {
			pools = pools && v.Stitching == nil
			failing = append(failing, l.Config.Name)
			told = append(told, l.Config.Name+": "+why)
			if st.Single {
				return line(http.StatusServiceUnavailable, "not ready: %s", why)
			}
		}
	}
	for i := range st.EVM {
		n := len(st.EVM[i].Listener.View().Pool)
		if n == 0 {
			failing = append(failing, st.EVM[i].Config.Name)
			told = append(told, st.EVM[i].Config.Name+": no upstreams online")
		}
		online += n
	}
	switch {
	case len(failing) > 0 && pools:
		return line(http.StatusServiceUnavailable, "not ready: listener(s) with no online upstreams: %s", strings.Join(failing, ", "))
	case len(failing) > 0:
		return line(http.StatusServiceUnavailable, "not ready: %s", strings.Join(told, ", "))
	case st.Single:
		return line(http.StatusOK, "ready: %d upstream(s) online", online)
	default:
		return line(http.StatusOK, "ready: %d listener(s) ready, %d upstream(s) online", len(st.Listeners)+len(st.EVM), online)
	}
}

// readyOf is the check of one listener.
func readyOf(name string) route {
	return func(st *State, r *http.Request) answer {
		l := st.listener(name)
		if l == nil {
			return readyEVM(st, name)
		}
		a, history, done := checkScope(st, l, r, "not ready ("+name+")")
		if done {
			return a
		}
		v := l.Fleet.View()
		if why := unready(l, v, history); why != "" {
			return withPolicies(line(http.StatusServiceUnavailable, "not ready (%s): %s", name, why), []Listener{*l}, nil)
		}
		return withPolicies(line(http.StatusOK, "ready (%s): %d upstream(s) online", name, v.Online()), []Listener{*l}, nil)
	}
}

// readyEVM is the check of one EVM listener.
func readyEVM(st *State, name string) answer {
	l := st.evmListener(name)
	switch {
	case l == nil:
		return notFound
	case st.Draining:
		return line(http.StatusServiceUnavailable, "not ready: shutting down")
	}
	a := line(http.StatusServiceUnavailable, "not ready (%s): no upstreams online", name)
	if n := len(l.Listener.View().Pool); n > 0 {
		a = line(http.StatusOK, "ready (%s): %d upstream(s) online", name, n)
	}
	return withPolicies(a, nil, []EVM{*l})
}

// unready is why a listener is not ready (M20), "" when it is. An outage of
// archives never makes it so by itself: that would pull the whole endpoint out
// of a load balancer. history asks for them as well.
func unready(l *Listener, v *fleet.View, history bool) string {
	var reasons []string
	switch live, counted := liveNodes(v); {
	case v.Stitching != nil && live && !counted:
		reasons = append(reasons, "no live upstreams online")
	case v.Online() == 0:
		reasons = append(reasons, "no upstreams online")
	}
	if history && v.Stitching != nil {
		head := l.Fleet.Pair().Head.Num
		trace, state := v.Coverage(fleet.Trace, head), v.Coverage(fleet.ChainState, head)
		reasons = append(reasons, perRange("gap %s has no upstream (%s)", trace.Gaps, state.Gaps)...)
		reasons = append(reasons, perRange("segment %s has no online upstream (%s)", trace.Offline, state.Offline)...)
		if n := v.Unreported(); n > 0 {
			reasons = append(reasons, fmt.Sprintf("%d frozen upstream(s) have neither reported nor declared a range", n))
		}
	}
	return strings.Join(reasons, "; ")
}

// liveNodes reports whether the fleet has live nodes, and whether one counts.
func liveNodes(v *fleet.View) (any, counted bool) {
	for i := range v.Upstreams {
		if u := &v.Upstreams[i]; u.Server.Role == config.Live && !u.Removed {
			any, counted = true, counted || u.Counted()
		}
	}
	return any, counted
}

// perRange is one reason for each range, in the order of the blocks. A range of
// both logs is one reason.
func perRange(format string, trace, state []ship.Range) (reasons []string) {
	logs := map[ship.Range][]string{}
	for _, r := range trace {
		logs[r] = append(logs[r], fleet.Trace.String())
	}
	for _, r := range state {
		logs[r] = append(logs[r], fleet.ChainState.String())
	}
	all := slices.SortedFunc(maps.Keys(logs), func(a, b ship.Range) int {
		return cmp.Or(cmp.Compare(a.Begin, b.Begin), cmp.Compare(a.End, b.End))
	})
	for _, r := range all {
		reasons = append(reasons, fmt.Sprintf(format, r, strings.Join(logs[r], ", ")))
	}
	return reasons
}
