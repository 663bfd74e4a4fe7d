package admin

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"flotilla/chainapi"
	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
)

// withAPI gives a listener a chain API over the given upstream APIs, and waits
// until those that are to be up are.
func withAPI(t *testing.T, l *Listener, up int, apis ...string) {
	t.Helper()
	l.Config.ChainAPI = &config.ChainAPI{Address: "127.0.0.1:18888", Allow: []string{"info"}, MaxInFlightPerUpstream: 64, UpstreamTimeout: time.Minute, Probe: 20 * time.Millisecond}
	for i, api := range apis {
		l.Config.Servers[i].APIEndpoint = api
	}
	l.ChainAPI = chainapi.New(l.Config, nil, l.Fleet, (&net.Dialer{}).DialContext, quiet)
	ctx, cancel := context.WithCancel(t.Context())
	var done sync.WaitGroup
	done.Go(func() { l.ChainAPI.Run(ctx) })
	t.Cleanup(func() { cancel(); done.Wait() })
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		if n, _ := apiReady(l.ChainAPI); n == up && len(l.ChainAPI.View().APIs) > 0 {
			return
		}
		if time.Now().After(end) {
			t.Fatal("the APIs do not come up")
		}
	}
}

func simulatedAPI(t *testing.T, chain *simulator.Chain) *simulator.API {
	t.Helper()
	a, err := simulator.StartAPI(chain, simulator.APIOptions{First: 7})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func TestReadyAPI(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 50})
	good, bad, none := pool("good", server("a", "127.0.0.1:1")), pool("bad", server("b", "127.0.0.1:2")), pool("none", server("c", "127.0.0.1:3"))
	withAPI(t, &good, 1, simulatedAPI(t, chain).Addr())
	withAPI(t, &bad, 0, "127.0.0.1:1")
	for _, c := range []struct {
		listeners []Listener
		single    bool
		path      string
		code      int
		text      string
	}{
		{[]Listener{good, none}, false, "/ready", 200, "ready: 1 listener(s) ready, 1 chain API upstream(s) up\n"},
		{[]Listener{good}, true, "/ready", 200, "ready: 1 chain API upstream(s) up\n"},
		{[]Listener{good, bad}, false, "/ready", 503, "not ready: bad: no live chain API upstream up\n"},
		{[]Listener{bad}, true, "/ready", 503, "not ready: no live chain API upstream up\n"},
		{[]Listener{none}, true, "/ready", 503, "not ready: no chain API configured\n"},
		{[]Listener{good, none}, false, "/ready/good", 200, "ready (good): 1 chain API upstream(s) up\n"},
		{[]Listener{good, none}, false, "/ready/none", 503, "not ready (none): no chain API configured\n"},
		{[]Listener{good, bad}, false, "/readyz/bad", 503, "not ready (bad): no live chain API upstream up\n"},
		{[]Listener{good}, false, "/ready/other", 404, "not found\n"},
	} {
		code, text := get(t, serving(State{Listeners: c.listeners, Single: c.single, ReloadOK: true}), c.path+"?scope=api")
		if code != c.code || text != c.text {
			t.Errorf("%s is %d %q, %d %q was due", c.path, code, text, c.code, c.text)
		}
	}
}

func TestCoverageAndMetricsOfAnAPI(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 50})
	l := pool("eos", server("a", "127.0.0.1:1"), server("b", "127.0.0.1:2"))
	withAPI(t, &l, 1, simulatedAPI(t, chain).Addr(), "127.0.0.1:3")
	s := serving(State{Listeners: []Listener{l}, ReloadOK: true})
	_, text := get(t, s, "/coverage")
	for _, want := range []string{
		`"chain_api":{"listen":"127.0.0.1:18888"`, `{"server":"a","up":true,"head":50,"lib":38,"earliest":7,"version":"v1.2.2-simulated"}`,
		`{"server":"b","up":false,"head":null,"lib":null,"earliest":null,"version":null}`, `"frozen":[]`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the coverage lacks %s: %s", want, text)
		}
	}
	a, b := "{endpoint=127.0.0.1:1,listener=eos,server=a}", "{endpoint=127.0.0.1:2,listener=eos,server=b}"
	scrapeOf(t, s).check(t, map[string]float64{
		"fleet_router_upstream_api_up" + a: 1, "fleet_router_upstream_api_up" + b: 0, "fleet_router_upstream_api_head_block" + a: 50,
		"fleet_router_upstream_api_earliest_block" + a: 7, "fleet_router_upstream_api_max_in_flight" + b: 64,
		"fleet_router_api_requests_total{class=info,code=2xx,listener=eos}": 0, "fleet_router_api_in_flight{listener=eos}": 0,
	})
}

func TestControl(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 50})
	l := running(t, "eos", server("a", node(t, chain, simulator.Options{}).Addr()))
	await(t, l.Fleet, 1)
	at := "/api/v1/listeners/eos/upstreams/" + l.Config.Servers[0].Endpoint
	const token = "a token of sixteen bytes"
	st := State{Listeners: []Listener{l}, ReloadOK: true, Control: &Control{Token: token, AllowedHosts: []string{"ops.example"}}}
	off := st
	off.Control = &Control{}
	none := st
	none.Control = nil
	for _, c := range []struct {
		what, method, path, token, host, body string
		state                                 State
		code                                  int
		contains                              string
	}{
		{"disable", "POST", at + "/disable", token, "", "", st, 200, `"operator_disabled":true`},
		{"enable", "POST", at + "/enable", token, "ops.example:9090", "", st, 200, `"operator_disabled":false`},
		{"drain", "POST", at + "/drain", token, "127.0.0.1:9090", "", st, 200, `"operator_disabled":true`},
		{"priority", "PATCH", at, token, "localhost", `{"priority":9}`, st, 200, `"priority":9,"weight":1`},
		{"weight", "PATCH", at, token, "", `{"weight":3}`, st, 200, `"priority":9,"weight":3`},
		{"reset", "POST", at + "/reset", token, "", "", st, 200, `"operator_disabled":false,"priority":0,"weight":1`},
		{"nothing", "PATCH", at, token, "", `{}`, st, 400, "neither"},
		{"weight 0", "PATCH", at, token, "", `{"weight":0}`, st, 400, "at least 1"},
		{"unknown key", "PATCH", at, token, "", `{"wieght":1}`, st, 400, "wieght"},
		{"wrong token", "POST", at + "/disable", "wrong", "", "", st, 401, "token"},
		{"control is off", "POST", at + "/disable", token, "", "", off, 403, "off"},
		{"another host", "POST", at + "/disable", token, "evil.example", "", st, 403, "allowed_hosts"},
		{"wrong method", "GET", at + "/disable", token, "", "", st, 405, "not allowed"},
		{"unknown action", "POST", at + "/explode", token, "", "", st, 404, "not found"},
		{"unknown listener", "POST", strings.Replace(at, "/eos/", "/wax/", 1) + "/disable", token, "", "", st, 404, "unknown listener 'wax'"},
		{"unknown upstream", "POST", at + "0/disable", token, "", "", st, 404, "unknown upstream"},
		{"no control API", "POST", at + "/disable", token, "", "", none, 404, "not found"},
	} {
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		if r.Host = "127.0.0.1"; c.host != "" {
			r.Host = c.host
		}
		r.Header.Set("Authorization", "Bearer "+c.token)
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		serving(c.state).Handler().ServeHTTP(w, r)
		if w.Code != c.code || !strings.Contains(w.Body.String(), c.contains) {
			t.Errorf("%s: %d %s", c.what, w.Code, w.Body)
		}
		if c.code == http.StatusMethodNotAllowed && w.Header().Get("Allow") != "POST" {
			t.Errorf("%s: Allow is %q", c.what, w.Header().Get("Allow"))
		}
	}
}

// The answer to a change says that it is in force, for the chain API, too.
func TestControlHoldsForTheChainAPIOnceAnswered(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 50})
	l := running(t, "eos", server("a", node(t, chain, simulator.Options{}).Addr()))
	await(t, l.Fleet, 1)
	withAPI(t, &l, 1, simulatedAPI(t, chain).Addr())
	const token = "a token of sixteen bytes"
	s := serving(State{Listeners: []Listener{l}, ReloadOK: true, Control: &Control{Token: token}})
	for i := range 200 {
		action, want := "/disable", true
		if i%2 == 1 {
			action, want = "/enable", false
		}
		r := httptest.NewRequest(http.MethodPost, "/api/v1/listeners/eos/upstreams/"+l.Config.Servers[0].Endpoint+action, nil)
		r.Host = "127.0.0.1"
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("%s is answered with %d %s", action, w.Code, w.Body)
		}
		if got := l.ChainAPI.View().APIs[0].Disabled; got != want {
			t.Fatalf("after change %d, %s, the chain API has Disabled %v", i, action, got)
		}
	}
}
