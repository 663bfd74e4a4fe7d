package chainapi

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/tests/scene"
)

// patience bounds every wait for something that has to happen on real sockets.
const patience = 2 * time.Minute

// eventually waits until cond holds.
func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("this has not happened within %v: %s", patience, what)
		}
	}
}

// logged is what the gateway logs.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// lines are those that hold all of the texts.
func (l *logged) lines(texts ...string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
next:
	for line := range strings.Lines(l.text.String()) {
		for _, text := range texts {
			if !strings.Contains(line, text) {
				continue next
			}
		}
		n++
	}
	return n
}

// sockets is a gateway with a chain API on loopback.
type sockets struct {
	api, admin string
	log        *logged
}

// onSockets runs a gateway before one node that serves HTTP only, and waits
// until it serves.
func onSockets(t *testing.T, node http.Handler, change func(*config.ChainAPI)) *sockets {
	t.Helper()
	upstream := httptest.NewServer(node)
	t.Cleanup(upstream.Close)
	cfg := scene.Listener()
	cfg.Address, cfg.HandshakeTimeout = "127.0.0.1:0", patience
	cfg.Servers = []*config.Server{{
		Name: "n", APIEndpoint: upstream.Listener.Addr().String(), Enabled: true, Role: config.Live, Weight: 1,
	}}
	cfg.ChainAPI = &config.ChainAPI{
		Address: "localhost:0", Allow: []string{"block", "info", "state"}, BlockSource: "frozen_first",
		MaxBody: 2 << 20, MaxConnections: 1024, MaxInFlight: 256, MaxInFlightPerUpstream: 64,
		UpstreamQueue: time.Second, UpstreamTimeout: patience, RequestDeadline: patience, MaxAttempts: 3, Probe: time.Second,
	}
	change(cfg.ChainAPI)
	s := &sockets{log: &logged{}}
	ctx, cancel := context.WithCancel(t.Context())
	up, done := make(chan map[string]net.Addr, 1), make(chan error, 1)
	go func() {
		done <- gateway.Run(ctx, &config.Config{
			Listeners: []*config.Listener{cfg}, Admin: &config.Admin{Address: "127.0.0.1:0"}, ShutdownGrace: 5 * time.Second,
		}, gateway.Options{
			Logger: slog.New(slog.NewTextHandler(io.MultiWriter(s.log, scene.LogOutput()), &slog.HandlerOptions{Level: slog.LevelDebug})),
			Ready:  func(a map[string]net.Addr) { up <- a },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the gateway ended with: %v", err)
		}
	})
	select {
	case all := <-up:
		s.api, s.admin = all[cfg.Name+"/chain_api"].String(), all["admin"].String()
	case err := <-done:
		done <- nil
		t.Fatalf("the gateway does not start: %v", err)
	}
	eventually(t, "the chain API is ready", func() bool {
		res, err := http.Get("http://" + s.admin + "/ready?scope=api")
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		return res.StatusCode == 200
	})
	return s
}

// metric is the value of a series, as text; empty when it is not there.
func (s *sockets) metric(t *testing.T, series string) string {
	t.Helper()
	res, err := http.Get("http://" + s.admin + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, series+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// nodeWith answers get_info, and hands everything else on.
func nodeWith(rest http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI != getInfo {
			rest(w, r)
			return
		}
		fmt.Fprintf(w, `{"chain_id":%q,"head_block_num":1000,"last_irreversible_block_num":900,"server_version_string":"v1"}`, strings.Repeat("c1", 32))
	})
}

// Large answers are passed on while they arrive: however large they are, they
// take no more memory.
func TestLargeAnswersTakeNoMemory(t *testing.T) {
	const size, clients, bound = 100 << 20, 2, 16 << 20
	piece := make([]byte, 256<<10)
	node := nodeWith(func(w http.ResponseWriter, r *http.Request) {
		if r.RequestURI == getBlock {
			w.Header().Set("Content-Length", fmt.Sprint(size))
		}
		for range size / len(piece) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	})
	certs := newCertificates(t)
	certs.put(1)
	for what, c := range map[string]struct {
		path   string
		secure bool
	}{
		"of known length":           {getBlock, false},
		"in chunks":                 {getAccount, false},
		"of known length, over TLS": {getBlock, true},
	} {
		t.Run(what, func(t *testing.T) {
			s := onSockets(t, node, func(api *config.ChainAPI) {
				if c.secure {
					api.TLS = certs.files()
				}
			})
			scheme, transport := "http://", &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: clients, TLSClientConfig: certs.client()}
			if c.secure {
				scheme = "https://"
			}
			defer transport.CloseIdleConnections()
			h := &http.Client{Transport: transport}
			all := func() {
				var running sync.WaitGroup
				for range clients {
					running.Go(func() {
						res, err := h.Post(scheme+s.api+c.path, "", strings.NewReader(byNum(950)))
						if err != nil {
							t.Error(err)
							return
						}
						defer res.Body.Close()
						if n, err := io.Copy(io.Discard, res.Body); err != nil || n != size || res.StatusCode != 200 {
							t.Errorf("%d, %d bytes, %v", res.StatusCode, n, err)
						}
					})
				}
				running.Wait()
			}
			all() // the buffers are there from now on
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			all()
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > bound {
				t.Errorf("%d answers of %d MiB took %d MiB of memory", clients, size>>20, took>>20)
			}
		})
	}
}

// A request is logged at debug with what became of it, and never with its body.
func TestRequestsAreLogged(t *testing.T) {
	s := onSockets(t, nodeWith(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(418) }), func(*config.ChainAPI) {})
	res, err := http.Post("http://"+s.api+getAccount, "", strings.NewReader(`{"account_name":"a secret"}`))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if n := s.log.lines("level=DEBUG", "class=state", "path="+getAccount, "status=418", "server=n", "attempts=1", "took=", "listener=test"); n != 1 {
		t.Errorf("%d lines of the log tell of the request", n)
	}
	if s.log.lines("secret") != 0 {
		t.Error("the body is in the log")
	}
	for _, text := range []string{"chain API listening", "chain API up"} {
		if n := s.log.lines("level=INFO", text); n != 1 {
			t.Errorf("%q is %d times in the log", text, n)
		}
	}
}
