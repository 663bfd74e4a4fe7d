package selection_test

import (
	"slices"
	"strings"
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/policies"
	"flotilla/stages/selection"
	"flotilla/stages/stagetest"
)

// recorder keeps the servers of some names, in their order, and remembers what
// it was asked.
type recorder struct {
	keep    string
	asked   string
	request policies.Request
}

func (r *recorder) Order(q *policies.Request, servers []*policies.Server, _ int) (kept []*policies.Server) {
	r.asked, r.request = "", *q
	for _, s := range servers {
		r.asked += s.Name
	}
	for _, name := range r.keep {
		if i := slices.IndexFunc(servers, func(s *policies.Server) bool { return s.Name == string(name) }); i >= 0 {
			kept = append(kept, servers[i])
		}
	}
	return kept
}

// The policy is asked about those that are equally able, and about no others.
func TestPolicyIsAsked(t *testing.T) {
	for _, c := range []struct {
		name       string
		soft       int
		keep       string
		candidates []candidate
		asked      string
		want       int
	}{
		{"all are equal", pipeline.None, "cab", []candidate{{}, {}, {}}, "abc", 2},
		{"priority is the policy's matter", pipeline.None, "b", []candidate{{}, {priority: 3}}, "ab", 1},
		{"worse ranks are not offered", pipeline.None, "cba", []candidate{{}, {rank: 2}, {}}, "ac", 2},
		{"nor are offline ones", pipeline.None, "ba", []candidate{{}, {offline: true}, {}}, "ac", 0},
		{"nor is the one just left", 0, "abc", []candidate{{}, {}, {}}, "bc", 1},
		{"one alone needs no policy", pipeline.None, "", []candidate{{rank: 1}, {}}, "", 1},
		{"one alone, just left", 0, "", []candidate{{}}, "", 0},
		{"nobody is kept", pipeline.None, "", []candidate{{taken: 2}, {taken: 1}, {rank: 1}}, "ab", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &recorder{keep: c.keep}
			x := exchange(c.soft, c.candidates...)
			selection.With(&config.Listener{Name: "eos"}, p).Up(x)
			if p.asked != c.asked || x.Pick != c.want {
				t.Errorf("asked about %q, picked %d; want %q, %d", p.asked, x.Pick, c.asked, c.want)
			}
		})
	}
}

// A request that has come is unwanted where the policy drops its upstream, and
// only then.
func TestUnwanted(t *testing.T) {
	for _, c := range []struct {
		name    string
		cause   pipeline.Cause
		current int
		keep    string
		rank    int
		want    bool
	}{
		{"dropped", pipeline.Received, 0, "b", 0, true},
		{"kept behind another", pipeline.Received, 0, "ba", 0, false},
		{"another is dropped", pipeline.Received, 0, "a", 0, false},
		{"all are dropped", pipeline.Received, 0, "", 0, false},
		{"no upstream", pipeline.Received, pipeline.None, "b", 0, false},
		{"not a request", pipeline.Replace, 0, "b", 0, false},
		{"it was not offered", pipeline.Received, 0, "b", 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := exchange(pipeline.None, candidate{rank: c.rank}, candidate{}, candidate{})
			x.Cause, x.Current, x.Unwanted = c.cause, c.current, true
			selection.With(nil, &recorder{keep: c.keep}).Up(x)
			if x.Unwanted != c.want {
				t.Errorf("unwanted is %v", x.Unwanted)
			}
		})
	}
}

// What a policy is told of the request.
func TestRequest(t *testing.T) {
	q := ship.BlocksRequest{Start: 5, End: 90, FetchTraces: true, Irreversible: true}
	for _, c := range []struct {
		name       string
		change     func(x *pipeline.Exchange)
		start, end uint64
		traces     bool
	}{
		{"none yet", func(x *pipeline.Exchange) { x.Cause = pipeline.Connect }, policies.NoBlock, policies.NoBlock, false},
		{"one that comes", func(x *pipeline.Exchange) {
			x.Cause, x.Request = pipeline.Received, ship.Request{Variant: ship.BlocksRequestV0, Blocks: q}
			x.Asked, x.Want, x.Cursor = true, ship.BlocksRequest{Start: 1, End: 2}, 1
		}, 5, 90, true},
		{"one under way", func(x *pipeline.Exchange) {
			x.Cause, x.Asked, x.Want, x.Cursor = pipeline.Replace, true, q, 40
		}, 40, 90, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &recorder{keep: "a"}
			x := exchange(pipeline.None, candidate{}, candidate{})
			x.Session, x.Client = 7, pipeline.Client{Address: "10.0.0.1", Headers: map[string]string{"x-a": "b"}}
			c.change(x)
			selection.With(&config.Listener{Name: "eos"}, p).Up(x)
			r := p.request
			if r.Protocol != "ship" || r.Listener != "eos" || r.Session != 7 || r.Client != "10.0.0.1" || r.Headers["x-a"] != "b" || r.Dry {
				t.Errorf("the request is %+v", r)
			}
			if r.Start != c.start || r.End != c.end || r.Traces != c.traces || r.Irreversible != c.traces {
				t.Errorf("the request is %+v", r)
			}
		})
	}
}

// A dry question changes nothing, and says what is offered and kept.
func TestOrderIsDry(t *testing.T) {
	p := &recorder{keep: "ca"}
	x := exchange(pipeline.None, candidate{}, candidate{}, candidate{})
	x.Pick = 9
	offered, kept := selection.With(nil, p).Order(x)
	names := func(list []*policies.Server) string {
		var out []string
		for _, s := range list {
			out = append(out, s.Name)
		}
		return strings.Join(out, "")
	}
	if names(offered) != "abc" || names(kept) != "ca" || !p.request.Dry || x.Pick != 9 {
		t.Errorf("offered %s, kept %s, dry %v, pick %d", names(offered), names(kept), p.request.Dry, x.Pick)
	}
}

// BenchmarkPick is one pick of the stage with the default policy.
func BenchmarkPick(b *testing.B) {
	x := stagetest.Exchange()
	for i := range 8 {
		x.View.Upstreams = append(x.View.Upstreams, stagetest.Node(string(rune('a'+i)), stagetest.Taken(i)))
		x.Candidates = append(x.Candidates, pipeline.Candidate{Index: i, Online: true})
	}
	s := selection.With(nil, policies.New(policies.Default))
	b.ReportAllocs()
	for b.Loop() {
		s.Up(x)
	}
}
