package admin

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"testing"

	"flotilla/gateway/simulator"
)

func TestHealth(t *testing.T) {
	for _, c := range []struct {
		name string
		st   State
		want string
	}{
		{"fine", State{ReloadOK: true}, "ok\n"},
		{"draining", State{ReloadOK: true, Draining: true}, "ok\n"},
		{"reload failed", State{ReloadError: "fleet.hcl:3: no such word\n  near x"}, "ok\nthe last reload failed: fleet.hcl:3: no such word near x\n"},
	} {
		for _, path := range []string{"/health", "/healthz", "/health?x=1"} {
			if code, got := get(t, serving(c.st), path); code != 200 || got != c.want {
				t.Errorf("%s: %s is %d %q, %q was due", c.name, path, code, got, c.want)
			}
		}
	}
}

func TestReadyInSingleMode(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 20})
	a, b := node(t, chain, simulator.Options{}), node(t, chain, simulator.Options{})
	l := running(t, "default", server("a", a.Addr()), server("b", b.Addr()))
	await(t, l.Fleet, 2)
	l.Fleet.SetDisabled(1, true)

	up := State{Listeners: []Listener{l}, Single: true, ReloadOK: true}
	gone := State{Listeners: []Listener{pool("default", down("a"))}, Single: true, ReloadOK: true}
	draining := up
	draining.Draining = true
	drained := gone
	drained.Draining = true
	for _, c := range []struct {
		st     State
		target string
		code   int
		want   string
	}{
		{up, "/ready", 200, "ready: 1 upstream(s) online\n"},
		{up, "/ready?scope=", 200, "ready: 1 upstream(s) online\n"},
		{up, "/ready?scope=tip", 200, "ready: 1 upstream(s) online\n"},
		{up, "/ready?scope=history", 200, "ready: 1 upstream(s) online\n"},
		{up, "/ready?a=b&scope=tip&scope=no", 200, "ready: 1 upstream(s) online\n"},
		{up, "/ready?xscope=no", 200, "ready: 1 upstream(s) online\n"},
		{up, "/ready?scope=api", 503, "not ready: no chain API configured\n"},
		{up, "/ready?scope=no&scope=tip", 400, "unknown scope 'no'; use tip, history or api\n"},
		{up, "/ready?scope=%74ip", 400, "unknown scope '%74ip'; use tip, history or api\n"},
		{up, "/ready?scope=Tip", 400, "unknown scope 'Tip'; use tip, history or api\n"},
		{up, "/ready/default", 200, "ready (default): 1 upstream(s) online\n"},
		{up, "/ready/default?scope=api", 503, "not ready (default): no chain API configured\n"},
		{up, "/ready/eos", 404, "not found\n"},
		{up, "/ready/", 404, "not found\n"},
		{up, "/ready/default/", 404, "not found\n"},
		{gone, "/ready", 503, "not ready: no upstreams online\n"},
		{gone, "/ready?scope=history", 503, "not ready: no upstreams online\n"},
		{gone, "/ready?scope=api", 503, "not ready: no chain API configured\n"},
		{gone, "/ready/default", 503, "not ready (default): no upstreams online\n"},
		{draining, "/ready", 503, "not ready: shutting down\n"},
		{draining, "/ready?scope=api", 503, "not ready: shutting down\n"},
		{draining, "/ready/default", 503, "not ready: shutting down\n"},
		{draining, "/ready/eos", 404, "not found\n"},
		{drained, "/ready", 503, "not ready: shutting down\n"},
	} {
		checkReady(t, c.st, c.target, c.code, c.want)
	}
}

func TestReadyOfListeners(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 20})
	n := node(t, chain, simulator.Options{})
	eos := running(t, "eos", server("a", n.Addr()), server("b", n.Addr()))
	await(t, eos.Fleet, 2)
	wax := pool("wax", down("c"))
	jungle := pool("jungle", down("d"))

	one := State{Listeners: []Listener{eos}, ReloadOK: true}
	some := State{Listeners: []Listener{wax, eos, jungle}, ReloadOK: true}
	draining := one
	draining.Draining = true
	for _, c := range []struct {
		st     State
		target string
		code   int
		want   string
	}{
		{one, "/ready", 200, "ready: 1 listener(s) ready, 2 upstream(s) online\n"},
		{one, "/ready?scope=history", 200, "ready: 1 listener(s) ready, 2 upstream(s) online\n"},
		{one, "/ready?scope=api", 503, "not ready: no chain API configured\n"},
		{one, "/ready/eos", 200, "ready (eos): 2 upstream(s) online\n"},
		{one, "/ready/%65os", 200, "ready (eos): 2 upstream(s) online\n"},
		{one, "/ready/eos?scope=api", 503, "not ready (eos): no chain API configured\n"},
		{one, "/ready/eos?scope=x", 400, "unknown scope 'x'; use tip, history or api\n"},
		{one, "/ready/default", 404, "not found\n"},
		{some, "/ready", 503, "not ready: listener(s) with no online upstreams: wax, jungle\n"},
		{some, "/ready?scope=history", 503, "not ready: listener(s) with no online upstreams: wax, jungle\n"},
		{some, "/ready/wax", 503, "not ready (wax): no upstreams online\n"},
		{some, "/ready/wax?scope=history", 503, "not ready (wax): no upstreams online\n"},
		{some, "/ready/eos", 200, "ready (eos): 2 upstream(s) online\n"},
		{some, "/ready/nope", 404, "not found\n"},
		{draining, "/ready", 503, "not ready: shutting down\n"},
		{draining, "/ready/eos", 503, "not ready: shutting down\n"},
	} {
		checkReady(t, c.st, c.target, c.code, c.want)
	}
}

// checkReady asks under both spellings.
func checkReady(t *testing.T, st State, target string, code int, want string) {
	t.Helper()
	for _, target := range []string{target, "/readyz" + target[len("/ready"):]} {
		if gotCode, got := get(t, serving(st), target); gotCode != code || got != want {
			t.Errorf("%s is %d %q, %d %q was due", target, gotCode, got, code, want)
		}
	}
}

func TestReadyFollowsTheNodes(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 20})
	n := node(t, chain, simulator.Options{})
	l := running(t, "eos", server("a", n.Addr()))
	s := serving(State{Listeners: []Listener{l}, ReloadOK: true})
	await(t, l.Fleet, 1)
	if code, _ := get(t, s, "/ready"); code != 200 {
		t.Errorf("it is %d with a node", code)
	}
	n.Kill()
	await(t, l.Fleet, 0)
	if code, _ := get(t, s, "/ready"); code != 503 {
		t.Errorf("it is %d without a node", code)
	}
	if err := n.Restart(); err != nil {
		t.Fatal(err)
	}
	await(t, l.Fleet, 1)
	if code, _ := get(t, s, "/ready"); code != 200 {
		t.Errorf("it is %d with the node back", code)
	}
}

func TestMethods(t *testing.T) {
	s := serving(State{Listeners: []Listener{pool("eos", down("a"))}, ReloadOK: true})
	known := []string{"/health", "/healthz", "/ready", "/readyz", "/ready/eos", "/readyz/eos", "/coverage", "/coverage/eos"}
	for _, path := range append(known, "/metrics", "/ready/nope", "/ready?scope=no") {
		for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "BREW"} {
			r := request(s, method, path)
			if text := body(t, r); r.StatusCode != 405 || text != "method not allowed\n" || r.Header.Get("Allow") != "GET,HEAD" || r.Header.Get("Content-Type") != "text/plain" {
				t.Errorf("%s %s is %d %q %v", method, path, r.StatusCode, text, r.Header)
			}
		}
	}
	for _, path := range append(known, "/nothing", "/ready/nope") {
		full, head := request(s, "GET", path), request(s, "HEAD", path)
		text := body(t, full)
		if got := body(t, head); got != "" {
			t.Errorf("HEAD %s has the body %q", path, got)
		}
		if head.StatusCode != full.StatusCode {
			t.Errorf("HEAD %s is %d, GET %d", path, head.StatusCode, full.StatusCode)
		}
		for _, name := range []string{"Content-Type", "Content-Length"} {
			if h, f := head.Header.Get(name), full.Header.Get(name); h != f {
				t.Errorf("HEAD %s has %s %q, GET %q", path, name, h, f)
			}
		}
		if got := full.Header.Get("Content-Length"); got != strconv.Itoa(len(text)) {
			t.Errorf("%s has Content-Length %s and %d bytes", path, got, len(text))
		}
	}
}

func TestUnknownPaths(t *testing.T) {
	s := serving(State{Listeners: []Listener{pool("eos", down("a"))}, ReloadOK: true})
	for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
		for _, path := range []string{"/", "/nothing", "/health/", "/healthy", "/metrics/", "//ready", "/Ready"} {
			r := request(s, method, path)
			want := "not found\n"
			if method == http.MethodHead {
				want = ""
			}
			if text := body(t, r); r.StatusCode != 404 || text != want || r.Header.Get("Content-Type") != "text/plain" {
				t.Errorf("%s %s is %d %q %v", method, path, r.StatusCode, text, r.Header)
			}
		}
	}
}

func FuzzRequest(f *testing.F) {
	for _, seed := range []string{"/ready?scope=tip", "/ready/eos?scope=api", "/coverage/eos", "/metrics", "/health", "/ready?scope=\xff&"} {
		f.Add("GET", seed)
	}
	s := serving(State{Listeners: []Listener{pool("eos", down("a"))}, ReloadOK: true})
	f.Fuzz(func(t *testing.T, method, target string) {
		r, err := http.NewRequest(method, "http://host"+target, nil)
		if err != nil {
			t.Skip()
		}
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		switch w.Code {
		case 200, 400, 404, 405, 503:
		default:
			t.Errorf("%s %q is %d", method, target, w.Code)
		}
	})
}
