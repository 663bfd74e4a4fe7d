package chainapi

import (
	"testing"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
)

// TestReload changes the chain API under a client that has a request in flight
// all the time.
func TestReload(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		a := w.node(simulator.APIOptions{}, priority(0))
		w.node(simulator.APIOptions{}, priority(1))
		put, stop := w.start()
		defer stop()
		release := make(chan struct{})
		a.Answer(func(r simulator.APIRequest) *simulator.APIAnswer {
			if string(r.Body) != "hold" {
				return nil
			}
			return &simulator.APIAnswer{Wait: release, Body: []byte("held")}
		})
		held := make(chan answer, 1)
		holder, c := w.client(), w.client()
		go func() { held <- w.ask(holder, getAccount, "hold") }()
		if got := w.ask(c, getAccount, "{}"); got.node() != "n0" {
			t.Errorf("%d %s", got.status, got.body)
		}

		// What is allowed, and what is set for browsers.
		put(w.whole(w.changed(func(_ *config.Listener, api *config.ChainAPI) {
			api.Allow, api.CORS = []string{"block", "state"}, &config.CORS{AllowOrigin: "https://here"}
		})))
		if got := w.ask(c, getInfo, ""); got.status != 404 || got.header.Get("Access-Control-Allow-Origin") != "https://here" {
			t.Errorf("get_info is %d with %v", got.status, got.header)
		}

		// A server that goes; the request that it has goes on.
		put(w.whole(w.changed(func(l *config.Listener, _ *config.ChainAPI) { l.Servers = l.Servers[1:] })))
		if got := w.ask(c, getAccount, "{}"); got.node() != "n1" {
			t.Errorf("after the server is gone: %d %s", got.status, got.body)
		}
		close(release)
		if got := <-held; got.status != 200 || got.body != "held" {
			t.Errorf("the request in flight got %d %s", got.status, got.body)
		}

		// And comes back.
		put(w.whole(w.changed(nothing)))
		if got := w.ask(c, getAccount, "{}"); got.node() != "n0" {
			t.Errorf("after it is back: %d %s", got.status, got.body)
		}

		// Another port: connections that are there stay.
		put(w.whole(w.changed(func(_ *config.Listener, api *config.ChainAPI) { api.Address = "gateway:19999" })))
		if got := w.ask(c, getAccount, "{}"); got.node() != "n0" {
			t.Errorf("on the old connection: %d %s", got.status, got.body)
		}
		if _, err := w.Net.DialContext(w.Ctx, "tcp", port); err == nil {
			t.Error("the old port is open")
		}
		if conn, err := w.Net.DialContext(w.Ctx, "tcp", "gateway:19999"); err != nil {
			t.Error(err)
		} else {
			conn.Close()
		}

		// No chain API at all, and one again.
		put(w.whole(w.changed(func(l *config.Listener, _ *config.ChainAPI) { l.ChainAPI = nil })))
		if _, err := w.post(c, getAccount, "{}"); err == nil {
			t.Error("a request was answered without a chain API")
		}
		put(w.whole(w.changed(nothing)))
		if got := w.ask(w.client(), getAccount, "{}"); got.status != 200 {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
}

func TestShutdown(t *testing.T) {
	for what, c := range map[string]struct {
		held, want time.Duration
		answered   bool
	}{
		"a request that ends in time":   {3 * time.Second, 3 * time.Second, true},
		"a request that takes too long": {time.Minute, 5 * time.Second, false},
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.Config.ChainAPI.UpstreamTimeout, w.Config.ChainAPI.RequestDeadline = 2*time.Minute, 2*time.Minute
				a := w.node(simulator.APIOptions{}, nil)
				release := make(chan struct{})
				a.Answer(func(r simulator.APIRequest) *simulator.APIAnswer {
					if !r.Client() {
						return nil
					}
					return &simulator.APIAnswer{Wait: release}
				})
				_, stop := w.start()
				idle, idleIn := w.raw()
				h := w.client()
				done := make(chan error, 1)
				go func() {
					_, err := w.post(h, getAccount, "{}")
					done <- err
				}()
				time.Sleep(time.Second)
				time.AfterFunc(c.held, func() { close(release) })
				from := time.Now()
				stopped := make(chan struct{})
				go func() { stop(); close(stopped) }()
				w.closesAfter(idle, idleIn, 0)
				err := <-done
				if took := time.Since(from); (err == nil) != c.answered || took.Round(time.Second) != c.want {
					t.Errorf("the request ended after %v with %v", took, err)
				}
				<-stopped
				time.Sleep(time.Minute)
			})
		})
	}
}
