package policies_test

import (
	"encoding/binary"
	"hash/fnv"
	"log/slog"
	"math"
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/ship/dial"
	"flotilla/policies"
)

// server is a node as the configuration names it.
func server(endpoint string, priority, weight uint32) *config.Server {
	return &config.Server{Name: endpoint, Endpoint: endpoint, URL: "ws://" + endpoint, Enabled: true, Role: config.Live, Priority: priority, Weight: weight}
}

func newFleet(servers ...*config.Server) *fleet.Fleet {
	return fleet.New(&config.Listener{Servers: servers}, &dial.Dialer{}, slog.New(slog.DiscardHandler))
}

// loaded is a node with n slots taken.
func loaded(n int, s *config.Server) *fleet.Upstream {
	f := newFleet(s)
	for range n {
		f.Reserve(func() int { return 0 })
	}
	return &f.View().Upstreams[0]
}

// first is which of two nodes goes first for any session: a, b or, when that
// depends on the session, both.
func first(a, b *fleet.Upstream) string {
	var out string
	for _, w := range []struct {
		name string
		sign func(int) bool
	}{{"a", func(n int) bool { return n < 0 }}, {"b", func(n int) bool { return n > 0 }}} {
		for session := range uint64(64) {
			if w.sign(policies.LeastConnections(session+1, a, b)) {
				out += w.name
				break
			}
		}
	}
	return out
}

func TestLeastConnections(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b *fleet.Upstream
		want string
	}{
		{"lower priority", loaded(9, server("a", 0, 1)), loaded(0, server("b", 1, 5)), "a"},
		{"fewer links", loaded(1, server("a", 3, 1)), loaded(2, server("b", 3, 1)), "a"},
		{"more links, but fewer for the weight", loaded(3, server("a", 0, 4)), loaded(1, server("b", 0, 1)), "a"},
		{"equal for the weight, larger weight", loaded(6, server("a", 0, 3)), loaded(4, server("b", 0, 2)), "a"},
		{"no links, larger weight", loaded(0, server("a", 0, 3)), loaded(0, server("b", 0, 2)), "a"},
		{"the largest weights", loaded(1, server("a", 0, math.MaxUint32)), loaded(1, server("b", 0, math.MaxUint32-1)), "a"},
		{"all equal: the hash decides", loaded(2, server("a", 0, 1)), loaded(2, server("b", 0, 1)), "ab"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := first(c.a, c.b); got != c.want {
				t.Errorf("first is %q, want %q", got, c.want)
			}
			mirrored := map[string]string{"a": "b", "ab": "ab"}[c.want]
			if got := first(c.b, c.a); got != mirrored {
				t.Errorf("the other way round first is %q, want %q", got, mirrored)
			}
		})
	}
}

// The hash is the peer's, so that a session lands on the same node (G9).
func TestHash(t *testing.T) {
	hash := func(session uint64, endpoint string) uint64 {
		h := fnv.New64a()
		h.Write(binary.LittleEndian.AppendUint64(nil, session))
		h.Write([]byte(endpoint))
		return h.Sum64()
	}
	a, b := loaded(0, server("10.0.0.1:8080", 0, 1)), loaded(0, server("10.0.0.2:8080", 0, 1))
	for session := range uint64(200) {
		got := policies.LeastConnections(session, a, b) < 0
		if want := hash(session, a.Server.Endpoint) < hash(session, b.Server.Endpoint); got != want {
			t.Errorf("session %d: a goes first: %v, want %v", session, got, want)
		}
	}
	if policies.LeastConnections(7, a, a) != 0 {
		t.Error("a node and itself are not equal")
	}
}

// Sessions that come one after another split by weight.
func TestWeightsSplitSessions(t *testing.T) {
	f := newFleet(server("a", 0, 2), server("b", 0, 1), server("spare", 1, 9))
	for session := range uint64(30) {
		f.Reserve(func() int {
			up := f.View().Upstreams
			best := 0
			for i := range up {
				if policies.LeastConnections(session+1, &up[i], &up[best]) < 0 {
					best = i
				}
			}
			return best
		})
	}
	for i, want := range []int64{20, 10, 0} {
		u := &f.View().Upstreams[i]
		if got := u.Live.Links(); got != want {
			t.Errorf("%s has %d sessions, want %d", u.Server.Name, got, want)
		}
	}
}
