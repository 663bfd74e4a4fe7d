package evm

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"flotilla/gateway/evm/jsonrpc"
	"flotilla/gateway/evm/upstream"
	"flotilla/policies"
	"flotilla/policies/lua"

	"github.com/valyala/fasthttp"
)

// recorder keeps the servers of some names, in their order, and remembers what
// it was asked.
type recorder struct {
	keep    string
	asked   string
	servers []policies.Server
	request policies.Request
}

func (r *recorder) Headers() []string { return []string{"X-Account"} }

func (r *recorder) Order(q *policies.Request, servers []*policies.Server, _ int) (kept []*policies.Server) {
	r.asked, r.servers, r.request = "", nil, *q
	for _, s := range servers {
		r.asked += s.Name
		r.servers = append(r.servers, *s)
	}
	for _, name := range r.keep {
		for _, s := range servers {
			if s.Name == string(name) {
				kept = append(kept, s)
			}
		}
	}
	return kept
}

// numbered gives the nodes of a view the ids that a fleet gives them.
func numbered(v *View) *View {
	for i, n := range v.Nodes {
		n.id = i + 1
	}
	return v
}

// A policy is asked about the nodes that can answer and are equally fresh, of
// any priority, and about no others.
func TestPolicyIsAsked(t *testing.T) {
	for _, c := range []struct {
		name  string
		keep  string
		nodes [][3]uint64
		w     want
		tried string
		asked string
		want  string
	}{
		{"equally fresh", "2", [][3]uint64{{100, 0, 1}, {101, 0, 1}, {101, 0, 1}}, want{}, "", "12", "2"},
		{"priority is the policy's matter", "1", [][3]uint64{{100, 0, 1}, {100, 3, 1}}, want{}, "", "01", "1"},
		{"not those that were tried", "210", [][3]uint64{{100, 0, 1}, {100, 0, 1}, {100, 0, 1}}, want{}, "2", "01", "1"},
		{"one alone needs no policy", "", [][3]uint64{{100, 0, 1}, {101, 0, 1}}, want{}, "", "", "1"},
		{"when the freshest are tried, the next ones", "0", [][3]uint64{{100, 0, 1}, {101, 0, 1}, {100, 0, 1}}, want{}, "1", "02", "0"},
		{"nobody is kept: fewer calls in flight", "", [][3]uint64{{100, 0, 1}, {100, 0, 1}}, want{}, "", "01", "1"},
		{"nobody has the block", "0", [][3]uint64{{100, 0, 1}, {100, 0, 1}}, want{height: 101}, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := numbered(pool(c.nodes...))
			v.Nodes[0].inFlight.Store(4)
			p := &recorder{keep: c.keep}
			j := &job{}
			for _, n := range v.Nodes {
				if strings.Contains(c.tried, n.Server.Name) {
					j.tried = append(j.tried, n.Node)
				}
			}
			got := ""
			if n := newChooser("main", p).choose(v, c.w, j, nil, nil); n != nil {
				got = n.Server.Name
			}
			if p.asked != c.asked || got != c.want {
				t.Errorf("asked about %q, chose %q; want %q, %q", p.asked, got, c.asked, c.want)
			}
		})
	}
}

// What a policy is told of a request and of a node.
func TestPolicyIsTold(t *testing.T) {
	v := numbered(pool([3]uint64{100, 2, 3}, [3]uint64{100, 0, 1}))
	n := v.Nodes[0]
	n.host, n.Server.Labels = "10.0.0.1:8545", map[string]string{"rack": "r1"}
	n.blocksFrom.Store(7)
	n.inFlight.Store(5)
	h := &fasthttp.RequestHeader{}
	h.Set("x-account", "alice")
	from := &net.TCPAddr{IP: net.ParseIP("10.0.0.9"), Port: 4711}
	one := jsonrpc.Call{Method: []byte("eth_getLogs")}
	for _, c := range []struct {
		name       string
		job        *job
		call       *jsonrpc.Call
		need       jsonrpc.Need
		methods    string
		start, end uint64
	}{
		{"a call for blocks", &job{request: upstream.Request{Header: h}}, &one, jsonrpc.Need{Named: true, Lowest: 20, Highest: 30}, "eth_getLogs", 20, 31},
		{"a call for the head", &job{request: upstream.Request{Header: h}}, &one, jsonrpc.Need{Head: true}, "eth_getLogs", policies.NoBlock, policies.NoBlock},
		{"a block that has no next one", &job{request: upstream.Request{Header: h}}, &one, jsonrpc.Need{Named: true, Lowest: 1, Highest: 1<<64 - 1}, "eth_getLogs", 1, 1<<64 - 1},
		{"a batch over a WebSocket", &job{handshake: http.Header{"X-Account": {"alice"}},
			calls: []jsonrpc.Call{one, {Method: []byte("eth_call")}},
			needs: []jsonrpc.Need{{Named: true, Lowest: 50, Highest: 60}, {Named: true, Lowest: 8, Highest: 9}}}, nil, jsonrpc.Need{}, "eth_getLogs eth_call", 8, 61},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &recorder{keep: "1"}
			c.job.from = from
			newChooser("main", p).choose(v, want{}, c.job, c.call, &c.need)
			q := p.request
			if q.Protocol != "evm" || q.Listener != "main" || q.Client != "10.0.0.9" || q.Headers["x-account"] != "alice" || q.Session == 0 || q.Dry {
				t.Errorf("the request is %+v", q)
			}
			if strings.Join(q.Methods, " ") != c.methods || q.Start != c.start || q.End != c.end {
				t.Errorf("methods %v, blocks %d to %d", q.Methods, q.Start, q.End)
			}
			s := p.servers[1]
			if s.Name != "0" || s.Endpoint != "10.0.0.1:8545" || s.Labels["rack"] != "r1" || s.Priority != 2 || s.Weight != 3 || s.Head != 100 ||
				s.Traces != (policies.Range{Begin: 7, End: 101}) || s.InFlight != 5 || !s.Online {
				t.Errorf("the server is %+v", s)
			}
		})
	}
}

// TestPolicyAllocatesNothing holds a choice to it for each built-in policy.
func TestPolicyAllocatesNothing(t *testing.T) {
	v := numbered(pool([3]uint64{100, 0, 1}, [3]uint64{100, 0, 2}, [3]uint64{100, 1, 1}))
	h := &fasthttp.RequestHeader{}
	h.Set("X-Account", "alice")
	j := &job{from: &net.TCPAddr{IP: net.ParseIP("10.0.0.9"), Port: 4711}, request: upstream.Request{Header: h}}
	call, need := jsonrpc.Call{Method: []byte("eth_call")}, jsonrpc.Need{Named: true, Lowest: 5, Highest: 5}
	for _, name := range policies.Names() {
		p := policies.New(name)
		if s, ok := p.(*policies.Sticky); ok {
			s.Header = "X-Account"
		}
		c, r := newChooser("main", p), &round{}
		ask := func() { c.choose(v, want{}, j, &call, &need) }
		if c.policy != nil {
			ask = func() { c.ask(r, v, want{}, j, &call, &need) }
		}
		if got := testing.AllocsPerRun(100, ask); got != 0 {
			t.Errorf("%s: %v allocations a choice", name, got)
		}
	}
}

// scripted is a policy whose script is this.
func scripted(tb testing.TB, script string) policies.Policy {
	tb.Helper()
	p := &lua.Policy{Script: "s.lua", Timeout: "1s"}
	if err := p.Load(func(string) (string, error) { return script, nil }); err != nil {
		tb.Fatal(err)
	}
	if err := p.Provision(policies.Env{Log: slog.New(slog.DiscardHandler)}); err != nil {
		tb.Fatal(err)
	}
	return p
}

// BenchmarkScript is a choice by a script, out of two nodes and out of eight.
func BenchmarkScript(b *testing.B) {
	scripts := []struct{ name, text string }{
		{"as it is", "function select(request, servers) return servers end"},
		{"score", `function score(request, server) return server.labels.rack == "r1" and 1 or 0 end`},
		{"select", `
function select(request, servers)
  local picked = {}
  for _, s in ipairs(servers) do
    if s.lag < 3 and s.errors < 10 then picked[#picked + 1] = s end
  end
  table.sort(picked, function(a, b) return a.labels.rack == "r1" and b.labels.rack ~= "r1" end)
  return picked
end`},
	}
	j := &job{from: &net.TCPAddr{IP: net.ParseIP("10.0.0.9"), Port: 4711}}
	call, need := jsonrpc.Call{Method: []byte("eth_call")}, jsonrpc.Need{Head: true}
	for _, count := range []int{2, 8} {
		var nodes [][3]uint64
		for range count {
			nodes = append(nodes, [3]uint64{100, 0, 1})
		}
		v := numbered(pool(nodes...))
		for i, n := range v.Nodes {
			n.Server.Labels = map[string]string{"rack": []string{"r1", "r2"}[i%2]}
		}
		for _, script := range scripts {
			b.Run(fmt.Sprintf("%s/%d", script.name, count), func(b *testing.B) {
				c := newChooser("main", scripted(b, script.text))
				b.ReportAllocs()
				for b.Loop() {
					c.choose(v, want{}, j, &call, &need)
				}
			})
		}
	}
}

// BenchmarkPolicy is a choice by a policy, out of eight nodes.
func BenchmarkPolicy(b *testing.B) {
	var nodes [][3]uint64
	for range 8 {
		nodes = append(nodes, [3]uint64{100, 0, 1})
	}
	v := numbered(pool(nodes...))
	j := &job{from: &net.TCPAddr{IP: net.ParseIP("10.0.0.9"), Port: 4711}}
	call, need := jsonrpc.Call{Method: []byte("eth_call")}, jsonrpc.Need{Head: true}
	for _, name := range policies.Names() {
		b.Run(name, func(b *testing.B) {
			c := newChooser("main", policies.New(name))
			b.ReportAllocs()
			for b.Loop() {
				c.choose(v, want{}, j, &call, &need)
			}
		})
	}
}
