package admin

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/ship/dial"
	"flotilla/gateway/simulator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds every wait for something that has to happen.
const patience = 30 * time.Second

var quiet = slog.New(slog.DiscardHandler)

// node starts a simulated node that lives as long as the test.
func node(t *testing.T, chain *simulator.Chain, o simulator.Options) *simulator.Node {
	t.Helper()
	n, err := simulator.Start(chain, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// server is a live server at an address.
func server(name, address string) *config.Server {
	return &config.Server{Name: name, Endpoint: address, URL: "ws://" + address + "/", Enabled: true, Role: config.Live, Weight: 1}
}

// down is a server of a fleet that is not run, or that cannot be reached.
func down(name string) *config.Server { return server(name, "127.0.0.1:1") }

// pool is a listener with a fleet that nobody runs.
func pool(name string, servers ...*config.Server) Listener {
	cfg := &config.Listener{
		Name: name, Topology: config.TopologyPool, Servers: servers, MaxConnections: 100, HandshakeTimeout: 20 * time.Second,
		MaxMessage: 1 << 20, Reconnect: 10 * time.Millisecond, Monitoring: time.Hour, Status: 20 * time.Second,
	}
	d := &dial.Dialer{Timeout: cfg.ConnectTimeout(), MaxMessage: cfg.MaxMessage}
	return Listener{Config: cfg, Fleet: fleet.New(cfg, d, quiet)}
}

// running is a pool whose fleet runs until the test ends.
func running(t *testing.T, name string, servers ...*config.Server) Listener {
	t.Helper()
	l := pool(name, servers...)
	runs(t, l.Fleet)
	return l
}

// runs runs a fleet until the test ends.
func runs(t *testing.T, f *fleet.Fleet) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
}

// await waits until so many upstreams of a fleet are online.
func await(t *testing.T, f *fleet.Fleet, online int) {
	t.Helper()
	late := time.After(patience)
	for {
		changed := f.Changed()
		if f.View().Online() == online {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("%d upstreams are online, not %d", f.View().Online(), online)
		}
	}
}

// serving is a server that always tells st.
func serving(st State) *Server {
	return New(func() *State { return &st }, "1.2.3", "abc", quiet)
}

func request(s *Server, method, target string) *http.Response {
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(method, target, nil))
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// get asks for a target and returns the status and the body.
func get(t *testing.T, s *Server, target string) (int, string) {
	t.Helper()
	r := request(s, http.MethodGet, target)
	return r.StatusCode, body(t, r)
}
