package chainapi

import (
	"net"
	"testing"

	"flotilla/gateway/config"
	"flotilla/policies"
)

// recorder keeps the servers of some names, in their order, and remembers what
// it was asked.
type recorder struct {
	keep    string
	asked   []string
	servers []policies.Server
	request policies.Request
}

func (r *recorder) Headers() []string { return []string{"X-Account"} }

func (r *recorder) Order(q *policies.Request, servers []*policies.Server, _ int) (kept []*policies.Server) {
	r.request = *q
	asked := ""
	for _, s := range servers {
		asked += s.Name
		r.servers = append(r.servers, *s)
	}
	r.asked = append(r.asked, asked)
	for _, name := range r.keep {
		for _, s := range servers {
			if s.Name == string(name) {
				kept = append(kept, s)
			}
		}
	}
	return kept
}

// request is an exchange of a client at 10.0.0.9 under a policy.
func request(class Class, path string, policy policies.Policy) *exchange {
	cfg := &config.Listener{Name: "eos", ChainAPI: &config.ChainAPI{}}
	p := New(cfg, policy, nil, nil, nil)
	near := &net.TCPConn{}
	c := newConn(p, addressed{near})
	return &exchange{c: c, p: p, s: p.settings.Load(), class: class, path: []byte(path), start: start}
}

type addressed struct{ net.Conn }

var customer = &net.TCPAddr{IP: net.ParseIP("10.0.0.9"), Port: 4711}

func (addressed) RemoteAddr() net.Addr { return customer }

// A policy is asked about each tier by itself, and what it leaves out is not
// asked.
func TestPolicyIsAsked(t *testing.T) {
	info := "/v1/chain/get_account"
	tiers := fleetOf(archive("f"), archive("g"), live("a"), live("b"), live("u", earliest(0)))
	for _, c := range []struct {
		name  string
		fleet *View
		keep  string
		plan  func(*View, *asker) []*API
		asked string
		want  string
	}{
		{"tiers", tiers, "gfba", func(v *View, a *asker) []*API {
			return planBlock(v, []byte(rawBlockPath), Question{Num: 100, Known: true}, Rules{MaxAttempts: 8}, 0, start, a).candidates
		}, "fg ab", "g f b a u"},
		{"one is left out of its tier", tiers, "ga", func(v *View, a *asker) []*API {
			return planBlock(v, []byte(rawBlockPath), Question{Num: 100, Known: true}, Rules{MaxAttempts: 8}, 0, start, a).candidates
		}, "fg ab", "g a u"},
		{"reversible, and those behind by their head", fleetOf(live("a"), live("b"), live("c", head(950)), live("d", head(960))), "ba", func(v *View, a *asker) []*API {
			return planBlock(v, []byte(rawBlockPath), Question{Num: 980, Known: true}, Rules{MaxAttempts: 8}, 0, start, a).candidates
		}, "ab", "b a d c"},
		{"state", fleetOf(live("a"), live("b"), live("c", head(900)), archive("f")), "ba", func(v *View, a *asker) []*API {
			return planState(v, []byte(info), Rules{Lag: 10}, 0, 0, (*API).usable, start, a)
		}, "ab", "b a"},
		{"priority is the policy's matter", fleetOf(live("a"), live("b", priority(3))), "ba", func(v *View, a *asker) []*API {
			return planState(v, []byte(info), Rules{}, 0, 0, (*API).usable, start, a)
		}, "ab", "b a"},
		{"nobody is kept: fewer requests in flight", fleetOf(live("a", func(a *API) { a.link.slots.take() }), live("b")), "", func(v *View, a *asker) []*API {
			return planState(v, []byte(info), Rules{}, 0, 0, (*API).usable, start, a)
		}, "ab", "b a"},
		{"one alone needs no policy", fleetOf(live("a")), "", func(v *View, a *asker) []*API {
			return planState(v, []byte(info), Rules{}, 0, 0, (*API).usable, start, a)
		}, "", "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &recorder{keep: c.keep}
			ask := request(State, info, p).asker(c.fleet, 0)
			defer ask.done()
			got := names(c.plan(c.fleet, ask))
			asked := ""
			for i, a := range p.asked {
				if i > 0 {
					asked += " "
				}
				asked += a
			}
			if asked != c.asked || got != c.want {
				t.Errorf("asked about %q, then %q; want %q, %q", asked, got, c.asked, c.want)
			}
		})
	}
}

// What a policy is told of a request and of a server.
func TestPolicyIsTold(t *testing.T) {
	p := &recorder{keep: "a"}
	v := fleetOf(live("a", priority(2), earliest(5), func(a *API) { a.Server.Labels = map[string]string{"rack": "r1"}; a.link.slots.take() }),
		live("b", head(1010)))
	x := request(Block, rawBlockPath, p)
	x.c.head.DisableNormalizing()
	x.c.head.Set("x-ACCOUNT", "alice")
	ask := x.asker(v, 1020)
	ask.about(100)
	planBlock(v, x.path, Question{Num: 100, Known: true}, Rules{MaxAttempts: 2}, 0, start, ask)
	q := p.request
	if q.Protocol != "chain_api" || q.Listener != "eos" || q.Client != "10.0.0.9" || q.Headers["x-account"] != "alice" || q.Session == 0 ||
		q.Class != "block" || q.Path != rawBlockPath || q.Start != 100 || q.End != 101 || q.Dry {
		t.Errorf("the request is %+v", q)
	}
	s := p.servers[0]
	if s.Name != "a" || s.Endpoint != "a" || s.Labels["rack"] != "r1" || s.Role != "live" || s.Priority != 2 || s.Weight != 1 ||
		s.Head != 1000 || s.LIB != 900 || s.Lag != 20 || s.InFlight != 1 || !s.Online || s.Traces != (policies.Range{Begin: 5, End: 1001}) {
		t.Errorf("the server is %+v", s)
	}
}

// The default policy is the built-in order, by name or without a block.
func TestDefaultPolicy(t *testing.T) {
	for _, p := range []policies.Policy{nil, policies.New(policies.Default)} {
		if ask := request(State, infoPath, p).asker(fleetOf(live("a")), 0); ask != nil {
			t.Errorf("%T is asked", p)
		}
	}
}

// TestPolicyAllocatesNothing holds the order of a tier to it, for each built-in
// policy.
func TestPolicyAllocatesNothing(t *testing.T) {
	v := fleetOf(live("a"), live("b"), live("c", priority(1)), live("d"))
	tier := []*API{&v.APIs[0], &v.APIs[1], &v.APIs[2], &v.APIs[3]}
	for _, name := range policies.Names() {
		x := request(State, infoPath, policies.New(name))
		ask := x.asker(v, 0)
		if got := testing.AllocsPerRun(100, func() {
			if ask != nil {
				ask.Address(x.c.raw.RemoteAddr())
				ask.Request.Path = ask.Text(x.path)
			}
			order(forState, tier, 0, 1, ask)
		}); got != 0 {
			t.Errorf("%s: %v allocations", name, got)
		}
	}
}
