package gateway

import (
	"context"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/config"
)

// running is a gateway in a bubble whose configuration a test exchanges.
type running struct {
	*hosts
	t       *testing.T
	reloads chan Reload
}

// ports is a configuration with a listener at each address; the first argument
// is the admin port, empty for none.
func ports(admin string, addresses ...string) *config.Config {
	cfg := &config.Config{ShutdownGrace: time.Second}
	if admin != "" {
		cfg.Admin = &config.Admin{Address: admin}
	}
	for i, address := range addresses {
		cfg.Listeners = append(cfg.Listeners, &config.Listener{
			Name: string(rune('a' + i)), Address: address, Topology: config.TopologyPool, MaxConnections: 10, HandshakeTimeout: time.Minute,
			MaxMessage: 1 << 20, MaxClientMessage: 1 << 16, Reconnect: time.Minute, Monitoring: time.Minute, Status: time.Minute,
		})
	}
	return cfg
}

// runs runs a gateway until the end of the test.
func runs(t *testing.T, h *hosts, cfg *config.Config) *running {
	t.Helper()
	r := &running{hosts: h, t: t, reloads: make(chan Reload)}
	ctx, cancel := context.WithCancel(context.Background())
	done, up := make(chan error, 1), make(chan struct{})
	go func() {
		done <- Run(ctx, cfg, Options{Logger: quiet, Network: h, Reload: r.reloads, Ready: func(map[string]net.Addr) { close(up) }})
	}()
	<-up
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the gateway ended with: %v", err)
		}
		if left := h.opened(); len(left) > 0 {
			t.Errorf("open after the end: %v", left)
		}
	})
	return r
}

func (r *running) put(cfg *config.Config) {
	r.reloads <- Reload{Config: cfg, Why: "the test"}
	synctest.Wait()
}

// open checks which ports are open, and that each of them is accepted on.
func (r *running) open(want ...string) {
	r.t.Helper()
	slices.Sort(want)
	if got := r.opened(); !slices.Equal(got, want) {
		r.t.Errorf("open are %v, %v was due", got, want)
	}
	for _, address := range want {
		if !r.accepts(r.t, address) {
			r.t.Errorf("%s does not accept", address)
		}
	}
}

// TestReloadPorts: which ports are open after each of some configurations. One
// that cannot be applied changes none of them.
func TestReloadPorts(t *testing.T) {
	type step struct {
		cfg  *config.Config
		open []string
	}
	for name, tt := range map[string]struct {
		foreign []string
		steps   []step
	}{
		"the same again": {nil, []step{{ports("1.1.1.1:9", "1.1.1.1:1"), []string{"1.1.1.1:1", "1.1.1.1:9"}}}},
		"moved":          {nil, []step{{ports("", "1.1.1.1:2"), []string{"1.1.1.1:2"}}, {ports("", "1.1.1.1:1"), []string{"1.1.1.1:1"}}}},
		"one more, one less": {nil, []step{
			{ports("", "1.1.1.1:1", "1.1.1.1:2"), []string{"1.1.1.1:1", "1.1.1.1:2"}}, {ports("", "1.1.1.1:2"), []string{"1.1.1.1:2"}},
		}},
		"swapped": {nil, []step{{ports("", "1.1.1.1:1", "1.1.1.1:2"), []string{"1.1.1.1:1", "1.1.1.1:2"}}, {ports("", "1.1.1.1:2", "1.1.1.1:1"), []string{"1.1.1.1:1", "1.1.1.1:2"}}}},
		"wider":   {nil, []step{{ports("", "0.0.0.0:1"), []string{"0.0.0.0:1"}}, {ports("", "1.1.1.1:1"), []string{"1.1.1.1:1"}}}},
		"admin on, moved, off": {nil, []step{
			{ports("1.1.1.1:9", "1.1.1.1:1"), []string{"1.1.1.1:1", "1.1.1.1:9"}},
			{ports("1.1.1.1:8", "1.1.1.1:1"), []string{"1.1.1.1:1", "1.1.1.1:8"}},
			{ports("", "1.1.1.1:1"), []string{"1.1.1.1:1"}},
		}},
		"a port that cannot be had": {[]string{"9.9.9.9:1"}, []step{
			{ports("", "1.1.1.1:2", "9.9.9.9:1"), []string{"1.1.1.1:1"}}, {ports("", "1.1.1.1:2"), []string{"1.1.1.1:2"}},
		}},
		"an admin port that cannot be had": {[]string{"9.9.9.9:9"}, []step{
			{ports("9.9.9.9:9", "1.1.1.1:2"), []string{"1.1.1.1:1"}}, {ports("", "1.1.1.1:2"), []string{"1.1.1.1:2"}},
		}},
		"a port that was closed for one that is not used then": {[]string{"9.9.9.9:9"}, []step{
			{ports("9.9.9.9:9", "0.0.0.0:1"), []string{"1.1.1.1:1"}}, {ports("", "0.0.0.0:1"), []string{"0.0.0.0:1"}},
		}},
		"an admin port that is not used then": {[]string{"9.9.9.9:1"}, []step{
			{ports("1.1.1.1:9", "9.9.9.9:1"), []string{"1.1.1.1:1"}}, {ports("1.1.1.1:9", "1.1.1.1:1"), []string{"1.1.1.1:1", "1.1.1.1:9"}},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := runs(t, newHosts(tt.foreign...), ports("", "1.1.1.1:1"))
				for _, s := range tt.steps {
					r.put(s.cfg)
					r.open(s.open...)
				}
			})
		})
	}
}

// TestReloadTakesAListenersAddress for another listener, in the same moment.
func TestReloadTakesAListenersAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := runs(t, newHosts(), ports("", "1.1.1.1:1"))
		old, err := r.DialContext(t.Context(), "tcp", "1.1.1.1:1")
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		before := len(r.listens)
		next := ports("", "1.1.1.1:1")
		next.Listeners[0].Name = "other"
		r.put(next)
		if !isClosed(old) {
			t.Error("a client of the listener that is gone is connected")
		}
		r.open("1.1.1.1:1")
		if got := len(r.listens) - before; got != 0 {
			t.Errorf("%d ports were opened for an address that was open", got)
		}
	})
}
