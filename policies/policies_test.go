package policies_test

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"flotilla/policies"

	"pgregory.net/rapid"
)

// server is one of weight 1 without load; its name is its endpoint.
func server(id int, change func(*policies.Server)) *policies.Server {
	s := &policies.Server{ID: id, Name: string(rune('a' + id)), Weight: 1, Run: policies.NoBlock, Online: true}
	s.Endpoint = s.Name
	if change != nil {
		change(s)
	}
	return s
}

// fleet is one server for each change.
func fleet(changes ...func(*policies.Server)) (list []*policies.Server) {
	for i, c := range changes {
		list = append(list, server(i, c))
	}
	return list
}

func names(list []*policies.Server) string {
	var b strings.Builder
	for _, s := range list {
		b.WriteString(s.Name)
	}
	return b.String()
}

func load(sessions int64, weight uint32) func(*policies.Server) {
	return func(s *policies.Server) { s.Sessions, s.Weight = sessions, weight }
}

func TestOrder(t *testing.T) {
	same := func(*policies.Server) {}
	spare := func(s *policies.Server) { s.Priority = 1 }
	run := func(n uint64) func(*policies.Server) {
		return func(s *policies.Server) { s.Run, s.Sessions = n, int64(n) }
	}
	head := func(n uint64, sessions int64) func(*policies.Server) {
		return func(s *policies.Server) { s.Head, s.Sessions = n, sessions }
	}
	latency := func(d time.Duration, sessions int64) func(*policies.Server) {
		return func(s *policies.Server) { s.Latency, s.Sessions = d, sessions }
	}
	for _, c := range []struct {
		policy, name string
		fleet        []*policies.Server
		want         string
	}{
		{"least_connections", "priority beats load", fleet(spare, load(9, 1)), "ba"},
		{"least_connections", "a longer run beats load", fleet(run(5), run(9)), "ba"},
		{"least_connections", "fewer links", fleet(load(2, 1), load(1, 1)), "ba"},
		{"least_connections", "fewer links for the weight", fleet(load(1, 1), load(3, 4)), "ba"},
		{"least_connections", "equal for the weight, larger weight", fleet(load(4, 2), load(6, 3)), "ba"},
		{"least_connections", "no links, larger weight", fleet(load(0, 2), load(0, 3)), "ba"},
		{"least_connections", "the largest weights", fleet(load(1, math.MaxUint32-1), load(1, math.MaxUint32)), "ba"},
		{"least_connections", "requests count as links do", fleet(func(s *policies.Server) { s.InFlight = 3 }, load(2, 1)), "ba"},
		{"freshest", "higher head", fleet(head(7, 0), head(8, 5), head(6, 0)), "bac"},
		{"freshest", "equal heads, fewer links", fleet(head(8, 5), head(8, 1)), "ba"},
		{"freshest", "priority beats the head", fleet(func(s *policies.Server) { s.Head, s.Priority = 9, 1 }, head(1, 0)), "ba"},
		{"lowest_latency", "faster", fleet(latency(50*time.Millisecond, 0), latency(10*time.Millisecond, 9)), "ba"},
		{"lowest_latency", "about as fast, fewer links", fleet(latency(10*time.Millisecond, 9), latency(10100*time.Microsecond, 0)), "ba"},
		{"lowest_latency", "not measured", fleet(latency(0, 0), latency(time.Second, 5)), "ba"},
		{"lowest_latency", "both as good as none", fleet(latency(20*time.Microsecond, 3), latency(60*time.Microsecond, 0)), "ba"},
		{"first", "the order of the file", fleet(load(9, 1), load(0, 9), same), "abc"},
		{"first", "priority", fleet(spare, same, same), "bca"},
		{"round_robin", "priority", fleet(spare, same), "ba"},
		{"random_two_choices", "priority", fleet(spare, same), "ba"},
		{"random_two_choices", "the better of two", fleet(load(5, 1), load(1, 1)), "ba"},
		{"sticky", "priority", fleet(spare, same), "ba"},
	} {
		t.Run(c.policy+"/"+c.name, func(t *testing.T) {
			r := &policies.Request{Session: 3, Client: "10.0.0.9"}
			if got := names(policies.New(c.policy).Order(r, slices.Clone(c.fleet), len(c.fleet))); got != c.want {
				t.Errorf("the order is %s, want %s", got, c.want)
			}
			slices.Reverse(c.fleet)
			if got := policies.New(c.policy).Order(r, c.fleet, 1)[0].Name; got != c.want[:1] {
				t.Errorf("asked for one it is %s, want %s", got, c.want[:1])
			}
		})
	}
}

// The hash is the peer's, so that a session lands on the same node (G9).
func TestSessionHash(t *testing.T) {
	hash := func(session uint64, endpoint string) uint64 {
		h := fnv.New64a()
		h.Write(binary.LittleEndian.AppendUint64(nil, session))
		h.Write([]byte(endpoint))
		return h.Sum64()
	}
	for session := range uint64(200) {
		f := fleet(nil, nil)
		f[0].Endpoint, f[1].Endpoint = "10.0.0.1:8080", "10.0.0.2:8080"
		want := 0
		if hash(session, f[1].Endpoint) < hash(session, f[0].Endpoint) {
			want = 1
		}
		r := &policies.Request{Session: session}
		if got := (&policies.LeastConnections{}).Order(r, f, 1)[0].ID; got != want {
			t.Errorf("session %d: %d goes first, want %d", session, got, want)
		}
	}
}

// Every policy keeps all servers, whatever the fleet; the best n are the same
// as those of the whole order; and a dry run leaves no trace.
func TestEveryPolicy(t *testing.T) {
	random := map[string]bool{"random_two_choices": true}
	rapid.Check(t, func(t *rapid.T) {
		var f []*policies.Server
		for i := range rapid.IntRange(1, 12).Draw(t, "servers") {
			f = append(f, server(i, func(s *policies.Server) {
				s.Priority = rapid.Uint32Range(0, 2).Draw(t, "priority")
				s.Weight = rapid.Uint32Range(1, 4).Draw(t, "weight")
				s.Sessions = rapid.Int64Range(0, 5).Draw(t, "sessions")
				s.Head = rapid.Uint64Range(0, 3).Draw(t, "head")
				s.Latency = time.Duration(rapid.Int64Range(0, 5).Draw(t, "latency")) * time.Millisecond
			}))
		}
		f = rapid.Permutation(f).Draw(t, "order")
		r := policies.Request{Session: rapid.Uint64().Draw(t, "session"), Client: rapid.String().Draw(t, "client")}
		dry := r
		dry.Dry = true
		best := slices.MinFunc(f, func(a, b *policies.Server) int { return int(a.Priority) - int(b.Priority) }).Priority
		for _, name := range policies.Names() {
			p := policies.New(name)
			all := p.Order(&dry, slices.Clone(f), len(f))
			if len(all) != len(f) || len(distinct(all)) != len(f) {
				t.Fatalf("%s made %s of %s", name, names(all), names(f))
			}
			if !slices.IsSortedFunc(all, func(a, b *policies.Server) int { return int(a.Priority) - int(b.Priority) }) {
				t.Errorf("%s does not keep to the priorities", name)
			}
			one := p.Order(&r, slices.Clone(f), 1)
			if one[0].Priority != best {
				t.Errorf("%s takes one of priority %d before one of %d", name, one[0].Priority, best)
			}
			if !random[name] && one[0] != all[0] {
				t.Errorf("%s takes %s, and %s when asked for all", name, one[0].Name, all[0].Name)
			}
		}
	})
}

func distinct(list []*policies.Server) map[*policies.Server]bool {
	set := map[*policies.Server]bool{}
	for _, s := range list {
		set[s] = true
	}
	return set
}

// A round robin comes round: each server as often as its weight, in turn, and
// the rest of each order is who would be next.
func TestRoundRobin(t *testing.T) {
	var p policies.RoundRobin
	var got string
	for range 8 {
		f := fleet(load(0, 1), load(0, 2), load(0, 1), func(s *policies.Server) { s.Priority = 1 })
		order := names(p.Order(&policies.Request{}, f, len(f)))
		if want := map[byte]string{'a': "abcd", 'b': "bcad", 'c': "cabd"}[order[0]]; order != want {
			t.Errorf("behind %c the order is %s, want %s", order[0], order, want)
		}
		got += order[:1]
	}
	if got != "abbcabbc" {
		t.Errorf("the turns are %s", got)
	}
}

// Two random choices spread the load, and never take the fullest of three.
func TestRandomTwoChoices(t *testing.T) {
	counts := map[string]int{}
	for range 3000 {
		f := fleet(load(1, 1), load(2, 1), load(3, 1))
		counts[(&policies.RandomTwoChoices{}).Order(&policies.Request{}, f, 1)[0].Name]++
	}
	// a wins two of the three pairs, b the one without a.
	if counts["c"] != 0 || counts["a"] < 1800 || counts["b"] < 800 {
		t.Errorf("the choices were %v", counts)
	}
}

// TestSticky: a client stays, clients spread by weight, and when a server goes
// nobody moves but its own clients.
func TestSticky(t *testing.T) {
	p := &policies.Sticky{Header: "X-Account"}
	home := func(r *policies.Request, without string) string {
		f := fleet(load(0, 1), load(50, 1), load(0, 2))
		f = slices.DeleteFunc(f, func(s *policies.Server) bool { return s.Name == without })
		return p.Order(r, f, 1)[0].Name
	}
	const clients = 4000
	counts := map[string]int{}
	for i := range clients {
		r := &policies.Request{Session: uint64(i), Client: fmt.Sprintf("10.0.%d.%d", i/256, i%256)}
		at := home(r, "")
		counts[at]++
		r.Session += 9
		if again := home(r, ""); again != at {
			t.Fatalf("%s moved from %s to %s", r.Client, at, again)
		}
		if then := home(r, "a"); at != "a" && then != at {
			t.Fatalf("%s moved from %s to %s when a went", r.Client, at, then)
		}
	}
	for name, share := range map[string]int{"a": clients / 4, "b": clients / 4, "c": clients / 2} {
		if n := counts[name]; n < share*9/10 || n > share*11/10 {
			t.Errorf("%s has %d clients; some %d are expected", name, n, share)
		}
	}
	// The header counts where there is one, whatever the address.
	account := func(address string) string {
		return home(&policies.Request{Client: address, Headers: map[string]string{"x-account": "alice"}}, "")
	}
	for i := range 50 {
		if account("10.0.0.1") != account(fmt.Sprint("10.1.0.", i)) {
			t.Fatal("an account is on two servers")
		}
	}
}

func TestStickyHeader(t *testing.T) {
	for header, ok := range map[string]bool{"": true, "x-account": true, "X_1": true, "x account": false, "x:y": false, "é": false} {
		if err := (&policies.Sticky{Header: header}).Validate(); (err == nil) != ok {
			t.Errorf("%q: %v", header, err)
		}
	}
}

// BenchmarkOrder is one pick out of so many servers.
func BenchmarkOrder(b *testing.B) {
	for _, name := range policies.Names() {
		for _, n := range []int{8, 64, 1000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				var f []*policies.Server
				for i := range n {
					f = append(f, server(i, load(int64(i*7%13), 1)))
				}
				p, r := policies.New(name), &policies.Request{Session: 7, Client: "10.0.0.9"}
				b.ReportAllocs()
				for b.Loop() {
					p.Order(r, f, 1)
				}
			})
		}
	}
}

// TestPicksAllocateNothing holds the policies to what selection promises.
func TestPicksAllocateNothing(t *testing.T) {
	f := fleet(load(1, 1), load(2, 1), load(3, 2), load(4, 1))
	r := &policies.Request{Session: 7, Client: "10.0.0.9"}
	for _, name := range policies.Names() {
		p := policies.New(name)
		if got := testing.AllocsPerRun(100, func() { p.Order(r, f, 1) }); got != 0 {
			t.Errorf("%s: %v allocations a pick", name, got)
		}
	}
}
