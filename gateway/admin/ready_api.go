package admin

import (
	"fmt"
	"net/http"
	"strings"

	"flotilla/chainapi"
	"flotilla/gateway/config"
)

// The reasons of scope api.
const (
	noChainAPI  = "no chain API configured"
	noLiveAPI   = "no live chain API upstream up"
	noFrozenAPI = "no verified frozen chain API upstream up"
)

// apiReady is whether a chain API has who answers: a live node, or, when the
// configuration has none with an API, a verified archive. up counts both. The
// port itself is open as long as its listener is listed.
func apiReady(p *chainapi.Port) (up int, reason string) {
	configured, live, frozen := false, 0, 0
	v := p.View()
	for i := range v.APIs {
		switch a := &v.APIs[i]; {
		case a.Server.Role == config.Live:
			configured = true
			if a.Up() && !a.Disabled {
				live++
			}
		case a.Up() && !a.Disabled && a.Verified:
			frozen++
		}
	}
	switch {
	case configured && live == 0:
		reason = noLiveAPI
	case !configured && frozen == 0:
		reason = noFrozenAPI
	}
	return live + frozen, reason
}

// readyAPI is the check of scope api, over all listeners or over one.
func readyAPI(st *State, of *Listener, notReady string) answer {
	unavailable := func(why string) answer {
		return line(http.StatusServiceUnavailable, "%s: %s", notReady, why)
	}
	if of != nil {
		if of.ChainAPI == nil {
			return unavailable(noChainAPI)
		}
		up, reason := apiReady(of.ChainAPI)
		if reason != "" {
			return unavailable(reason)
		}
		return line(http.StatusOK, "ready (%s): %d chain API upstream(s) up", of.Config.Name, up)
	}
	listeners, total := 0, 0
	var failing []string
	for i := range st.Listeners {
		l := &st.Listeners[i]
		if l.ChainAPI == nil {
			continue
		}
		listeners++
		up, reason := apiReady(l.ChainAPI)
		total += up
		if reason == "" {
			continue
		}
		if !st.Single {
			reason = fmt.Sprintf("%s: %s", l.Config.Name, reason)
		}
		failing = append(failing, reason)
	}
	switch {
	case listeners == 0:
		return unavailable(noChainAPI)
	case len(failing) > 0:
		return unavailable(strings.Join(failing, ", "))
	case st.Single:
		return line(http.StatusOK, "ready: %d chain API upstream(s) up", total)
	}
	return line(http.StatusOK, "ready: %d listener(s) ready, %d chain API upstream(s) up", listeners, total)
}
