package gateway

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
)

// hosts is a network of one machine in memory: as with TCP, its wildcard
// address 0.0.0.0 cannot be had beside another one with the same port number.
type hosts struct {
	*simulator.Network

	mu      sync.Mutex
	open    map[string]bool
	foreign map[string]bool // addresses that this machine does not have
	listens []string        // what was opened, or was to be, in order
}

func newHosts(foreign ...string) *hosts {
	h := &hosts{Network: simulator.NewNetwork(), open: map[string]bool{}, foreign: map[string]bool{}}
	for _, address := range foreign {
		h.foreign[address] = true
	}
	return h
}

// forget makes an address one that cannot be had any more, or again.
func (h *hosts) forget(address string, on bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.foreign[address] = on
}

func (h *hosts) Listen(address string) (net.Listener, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.listens = append(h.listens, address)
	fail := func(why error) (net.Listener, error) {
		return nil, &net.OpError{Op: "listen", Net: "memory", Addr: where(address), Err: why}
	}
	if h.foreign[address] {
		return fail(syscall.EADDRNOTAVAIL)
	}
	host, number, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	for other := range h.open {
		if at, n, _ := net.SplitHostPort(other); n == number && (at == host || at == "0.0.0.0" || host == "0.0.0.0") {
			return fail(syscall.EADDRINUSE)
		}
	}
	l, err := h.Network.Listen(address)
	if err != nil {
		return nil, err
	}
	h.open[address] = true
	return &hostPort{Listener: l, hosts: h, address: address}, nil
}

func (h *hosts) opened() (list []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for address := range h.open {
		list = append(list, address)
	}
	slices.Sort(list)
	return list
}

type where string

func (where) Network() string  { return "memory" }
func (w where) String() string { return string(w) }

// hostPort is an open port of a hosts network.
type hostPort struct {
	net.Listener
	hosts   *hosts
	address string
	once    sync.Once
}

func (p *hostPort) Close() error {
	p.once.Do(func() {
		p.hosts.mu.Lock()
		defer p.hosts.mu.Unlock()
		delete(p.hosts.open, p.address)
	})
	return p.Listener.Close()
}

// accepts reports whether somebody takes connections at the address. In a
// bubble it waits for that in fake time.
func (h *hosts) accepts(t *testing.T, address string) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, err := h.DialContext(ctx, "tcp", address)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

var quiet = slog.New(slog.DiscardHandler)

// openSet is a set of open ports that accept, until the end of the test.
func openSet(t *testing.T, h *hosts, addresses ...string) portSet {
	t.Helper()
	s := portSet{}
	for _, address := range addresses {
		l, err := h.Listen(address)
		if err != nil {
			t.Fatal(err)
		}
		s[address] = &port{Listener: l}
		s[address].start(t.Context(), quiet)
	}
	t.Cleanup(func() {
		for _, p := range s {
			p.shut()
		}
	})
	return s
}

func TestPortShift(t *testing.T) {
	for name, tt := range map[string]struct {
		open, wanted, foreign []string
		// opened are the new ports, and after are all that are open then.
		opened, after []string
		// fails are parts of the error.
		fails []string
	}{
		"nothing":           {nil, nil, nil, nil, nil, nil},
		"the first":         {nil, []string{"1.1.1.1:1", "1.1.1.1:2"}, nil, []string{"1.1.1.1:1", "1.1.1.1:2"}, []string{"1.1.1.1:1", "1.1.1.1:2"}, nil},
		"no change":         {[]string{"1.1.1.1:1"}, []string{"1.1.1.1:1"}, nil, nil, []string{"1.1.1.1:1"}, nil},
		"one more":          {[]string{"1.1.1.1:1"}, []string{"1.1.1.1:1", "1.1.1.1:2"}, nil, []string{"1.1.1.1:2"}, []string{"1.1.1.1:1", "1.1.1.1:2"}, nil},
		"one less stays":    {[]string{"1.1.1.1:1", "1.1.1.1:2"}, []string{"1.1.1.1:1"}, nil, nil, []string{"1.1.1.1:1", "1.1.1.1:2"}, nil},
		"another number":    {[]string{"1.1.1.1:1"}, []string{"1.1.1.1:2"}, nil, []string{"1.1.1.1:2"}, []string{"1.1.1.1:1", "1.1.1.1:2"}, nil},
		"another host":      {[]string{"1.1.1.1:1"}, []string{"2.2.2.2:1"}, nil, []string{"2.2.2.2:1"}, []string{"1.1.1.1:1", "2.2.2.2:1"}, nil},
		"wanted twice":      {nil, []string{"1.1.1.1:1", "1.1.1.1:1"}, nil, []string{"1.1.1.1:1"}, []string{"1.1.1.1:1"}, nil},
		"a narrower host":   {[]string{"0.0.0.0:1"}, []string{"1.1.1.1:1"}, nil, []string{"1.1.1.1:1"}, []string{"1.1.1.1:1"}, nil},
		"a wider host":      {[]string{"1.1.1.1:1"}, []string{"0.0.0.0:1"}, nil, []string{"0.0.0.0:1"}, []string{"0.0.0.0:1"}, nil},
		"wider than two":    {[]string{"1.1.1.1:1", "2.2.2.2:1"}, []string{"0.0.0.0:1"}, nil, []string{"0.0.0.0:1"}, []string{"0.0.0.0:1"}, nil},
		"narrowed to two":   {[]string{"0.0.0.0:1"}, []string{"1.1.1.1:1", "2.2.2.2:1"}, nil, []string{"1.1.1.1:1", "2.2.2.2:1"}, []string{"1.1.1.1:1", "2.2.2.2:1"}, nil},
		"others stay":       {[]string{"0.0.0.0:1", "0.0.0.0:2"}, []string{"1.1.1.1:1"}, nil, []string{"1.1.1.1:1"}, []string{"0.0.0.0:2", "1.1.1.1:1"}, nil},
		"a rival is wanted": {[]string{"0.0.0.0:1"}, []string{"0.0.0.0:1", "1.1.1.1:1"}, nil, nil, []string{"0.0.0.0:1"}, []string{"1.1.1.1:1", "in use"}},
		"both are wanted":   {nil, []string{"0.0.0.0:1", "1.1.1.1:1"}, nil, nil, nil, []string{"1.1.1.1:1", "in use"}},
		"one rival of two is wanted": {[]string{"1.1.1.1:1", "2.2.2.2:1"}, []string{"2.2.2.2:1", "0.0.0.0:1"}, nil, nil,
			[]string{"1.1.1.1:1", "2.2.2.2:1"}, []string{"0.0.0.0:1", "in use"}},

		"one of several fails": {[]string{"1.1.1.1:1"}, []string{"1.1.1.1:2", "9.9.9.9:3", "1.1.1.1:4"}, []string{"9.9.9.9:3"}, nil,
			[]string{"1.1.1.1:1"}, []string{"9.9.9.9:3", "cannot assign"}},
		"all that fail are named": {nil, []string{"9.9.9.9:3", "1.1.1.1:1", "8.8.8.8:3"}, []string{"9.9.9.9:3", "8.8.8.8:3"}, nil,
			nil, []string{"9.9.9.9:3", "8.8.8.8:3"}},
		"closed in vain": {[]string{"1.1.1.1:1"}, []string{"9.9.9.9:1"}, []string{"9.9.9.9:1"}, nil,
			[]string{"1.1.1.1:1"}, []string{"9.9.9.9:1"}},
		"closed for another that fails": {[]string{"0.0.0.0:1"}, []string{"1.1.1.1:1", "9.9.9.9:3"}, []string{"9.9.9.9:3"}, nil,
			[]string{"0.0.0.0:1"}, []string{"9.9.9.9:3"}},
		"closed for one, and another of its number fails": {[]string{"0.0.0.0:1"}, []string{"1.1.1.1:1", "9.9.9.9:1"}, []string{"9.9.9.9:1"}, nil,
			[]string{"0.0.0.0:1"}, []string{"9.9.9.9:1"}},
		"many of one number fail": {[]string{"1.1.1.1:1", "2.2.2.2:1", "3.3.3.3:2"}, []string{"9.9.9.9:1", "0.0.0.0:1", "8.8.8.8:1"},
			[]string{"9.9.9.9:1", "8.8.8.8:1"}, nil, []string{"1.1.1.1:1", "2.2.2.2:1", "3.3.3.3:2"}, []string{"9.9.9.9:1", "8.8.8.8:1"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHosts(tt.foreign...)
				s := openSet(t, h, tt.open...)
				before := map[string]*port{}
				for address, p := range s {
					before[address] = p
				}
				opened, err := s.shift(h, tt.wanted, func(p *port) { p.start(t.Context(), quiet) })
				if (err != nil) != (tt.fails != nil) {
					t.Errorf("error: %v", err)
				}
				for _, part := range tt.fails {
					if err != nil && !strings.Contains(err.Error(), part) {
						t.Errorf("the error %q does not tell of %q", err, part)
					}
				}
				var got []string
				for address, p := range opened {
					got = append(got, address)
					if s[address] != nil {
						t.Errorf("%s was opened, and is in the set already", address)
					}
					defer p.Close()
				}
				slices.Sort(got)
				if !slices.Equal(got, tt.opened) {
					t.Errorf("opened are %v, %v was due", got, tt.opened)
				}
				if now := h.opened(); !slices.Equal(now, tt.after) {
					t.Errorf("open are %v, %v was due", now, tt.after)
				}
				for address, p := range s {
					if before[address] != p {
						t.Errorf("%s is another port than before", address)
					}
					if !h.accepts(t, address) {
						t.Errorf("%s does not accept", address)
					}
				}
				if err != nil && len(s) != len(before) {
					t.Errorf("%d ports are in the set after an error, %d were before", len(s), len(before))
				}
			})
		})
	}
}

// TestPortShiftThatLosesAPort: somebody else took it in the moment that it was
// closed. The error says so, and the next shift opens it again.
func TestPortShiftThatLosesAPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts("9.9.9.9:1")
		s := openSet(t, h, "1.1.1.1:1", "1.1.1.1:2")
		h.forget("1.1.1.1:1", true)
		start := func(p *port) { p.start(t.Context(), quiet) }
		opened, err := s.shift(h, []string{"9.9.9.9:1"}, start)
		if err == nil || !strings.Contains(err.Error(), "the old port is lost") || opened != nil {
			t.Errorf("opened %v, error: %v", opened, err)
		}
		if s["1.1.1.1:1"] != nil || !h.accepts(t, "1.1.1.1:2") {
			t.Errorf("the set is %v", s)
		}
		h.forget("1.1.1.1:1", false)
		opened, err = s.shift(h, []string{"1.1.1.1:1", "1.1.1.1:2"}, start)
		if err != nil || len(opened) != 1 || opened["1.1.1.1:1"] == nil {
			t.Fatalf("opened %v, error: %v", opened, err)
		}
		opened["1.1.1.1:1"].Close()
	})
}

// failing is a port whose next accepts fail.
type failing struct {
	net.Listener
	errs chan error
}

func (f *failing) Accept() (net.Conn, error) {
	select {
	case err := <-f.errs:
		return nil, err
	default:
		return f.Listener.Accept()
	}
}

// TestPortRestsAfterAFailure that may pass, and accepts again.
func TestPortRestsAfterAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts()
		l, err := h.Listen("1.1.1.1:1")
		if err != nil {
			t.Fatal(err)
		}
		f := &failing{Listener: l, errs: make(chan error, 2)}
		f.errs <- syscall.EMFILE
		f.errs <- syscall.EMFILE
		p := &port{Listener: f}
		p.start(t.Context(), quiet)
		began := time.Now()
		if !h.accepts(t, "1.1.1.1:1") {
			t.Error("the port does not accept any more")
		}
		if took := time.Since(began); took != 2*acceptPause {
			t.Errorf("it rested for %v", took)
		}
		p.shut()
		if h.accepts(t, "1.1.1.1:1") {
			t.Error("a port accepts after it was shut")
		}
	})
}

// TestPortEnds with its context also while it rests.
func TestPortEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := newHosts().Listen("1.1.1.1:1")
		if err != nil {
			t.Fatal(err)
		}
		f := &failing{Listener: l, errs: make(chan error, 1)}
		f.errs <- errors.New("no more files")
		ctx, cancel := context.WithCancel(t.Context())
		p := &port{Listener: f}
		p.start(ctx, quiet)
		synctest.Wait()
		began := time.Now()
		cancel()
		p.shut()
		if took := time.Since(began); took != 0 {
			t.Errorf("the end took %v", took)
		}
	})
}

// lonely is a listener whose one server is not there.
func lonely(t *testing.T, network Network, change func(*config.Listener)) *listener {
	t.Helper()
	cfg := &config.Listener{
		Name: "test", Topology: config.TopologyPool, MaxConnections: 10, HandshakeTimeout: time.Minute,
		MaxMessage: 1 << 20, MaxClientMessage: 1 << 16, Reconnect: time.Minute, Monitoring: time.Minute, Status: time.Minute,
		Servers: []*config.Server{{Name: "a", Endpoint: "a:1", URL: "ws://a:1/", Enabled: true, Role: config.Live, Weight: 1}},
	}
	if change != nil {
		change(cfg)
	}
	l, err := newListener(cfg, network, nil, quiet)
	if err != nil {
		t.Fatal(err)
	}
	l.start(t.Context())
	return l
}

// TestPortChangesHands: a connection goes to who owns the port when it comes,
// and to nobody when nobody does.
func TestPortChangesHands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHosts()
		one, two := lonely(t, h, nil), lonely(t, h, nil)
		p := openSet(t, h, "1.1.1.1:1")["1.1.1.1:1"]
		dial := func() net.Conn {
			t.Helper()
			conn, err := h.DialContext(t.Context(), "tcp", "1.1.1.1:1")
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return conn
		}
		counts := func(first, second uint64) {
			t.Helper()
			if a, b := one.fleet.Stats.Accepted.Load(), two.fleet.Stats.Accepted.Load(); a != first || b != second {
				t.Errorf("%d and %d connections were taken, %d and %d were due", a, b, first, second)
			}
		}
		if _, err := dial().Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("a connection that nobody wants: %v", err)
		}
		p.give(one)
		first := dial()
		counts(1, 0)
		p.give(two)
		second := dial()
		counts(1, 1)
		// The owner before is stopped; its connection goes, the other stays.
		one.stop()
		if _, err := first.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("a connection of a listener that has stopped: %v", err)
		}
		if got := two.fleet.Stats.Clients.Load(); got != 1 {
			t.Errorf("%d clients are left to the other one", got)
		}
		second.Close()
		two.stop()
	})
}
