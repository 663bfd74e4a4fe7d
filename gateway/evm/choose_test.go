package evm

import (
	"fmt"
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/evm/health"
	"flotilla/gateway/evm/jsonrpc"

	"pgregory.net/rapid"
)

func TestPlan(t *testing.T) {
	named := func(low, high uint64) jsonrpc.Need { return jsonrpc.Need{Named: true, Lowest: low, Highest: high} }
	for _, c := range []struct {
		name      string
		need      jsonrpc.Need
		told, tip uint64
		want      want
	}{
		{"nothing", jsonrpc.Need{}, 90, 100, want{}},
		{"the head is what was told", jsonrpc.Need{Head: true}, 90, 100, want{height: 90}},
		{"a named block", named(80, 95), 90, 100, want{height: 95, lowest: 80, bounded: true}},
		{"the tip itself", named(100, 100), 90, 100, want{height: 100, lowest: 100, bounded: true}},
		{"told, though no check has seen it", named(103, 103), 103, 100, want{height: 103, lowest: 103, bounded: true}},
		{"a block that nobody has", named(200, 200), 90, 100, want{height: 90, lowest: 200, bounded: true}},
		{"from a block to the head", jsonrpc.Need{Named: true, Lowest: 10, Highest: 10, Head: true}, 90, 100, want{height: 90, lowest: 10, bounded: true}},
	} {
		if got := plan(c.need, c.told, c.tip); got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestWantAnd(t *testing.T) {
	a := want{height: 5, lowest: 3, bounded: true}
	b := want{height: 9, lowest: 1, bounded: true, state: true}
	if got := a.and(b); got != (want{height: 9, lowest: 1, bounded: true, state: true}) || got != b.and(a) {
		t.Errorf("%+v", got)
	}
	if got := a.and(want{}); got != a {
		t.Errorf("%+v", got)
	}
	if got := (want{}).and(a); got != a {
		t.Errorf("%+v", got)
	}
}

// pool makes a view of nodes; each is height, priority, weight.
func pool(nodes ...[3]uint64) *View {
	var list []*Node
	for i, x := range nodes {
		n := &Node{}
		n.server.Store(&config.EVMServer{Name: fmt.Sprint(i), Priority: uint32(x[1]), Weight: uint32(x[2])})
		n.state = health.State{Healthy: true, Known: true, Height: x[0]}
		n.head.Store(x[0])
		list = append(list, n)
	}
	return (&View{}).rebuilt(list)
}

func TestChoose(t *testing.T) {
	names := func(v *View, w want, tried ...*Node) map[string]bool {
		seen := map[string]bool{}
		for range 300 {
			if n := choose(v, w, tried); n != nil {
				seen[n.Server.Name] = true
			}
		}
		return seen
	}
	check := func(what string, got map[string]bool, want ...string) {
		t.Helper()
		if len(got) != len(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
		for _, n := range want {
			if !got[n] {
				t.Errorf("%s: %v, want %v", what, got, want)
			}
		}
	}
	v := pool([3]uint64{100, 0, 1}, [3]uint64{101, 0, 1}, [3]uint64{101, 0, 1}, [3]uint64{99, 0, 1})
	check("the freshest share the load", names(v, want{}), "1", "2")
	check("the next freshest after them", names(v, want{}, v.Pool[0].Node, v.Pool[1].Node), "0")
	check("only nodes that have the block", names(v, want{height: 101}, v.Pool[0].Node, v.Pool[1].Node))
	v.Nodes[3].head.Store(105)
	check("a node whose answer has shown more than its last check", names(v, want{height: 105}), "3")
	v.Nodes[1].blocksFrom.Store(50)
	check("history", names(v, want{height: 100, lowest: 10, bounded: true}), "2")
	v.Nodes[2].statesFrom.Store(90)
	check("history of state", names(v, want{height: 100, lowest: 60, bounded: true, state: true}), "1")
	check("priority among equals", names(pool([3]uint64{100, 1, 1}, [3]uint64{100, 0, 1}), want{}), "1")
	check("nobody", names(pool(), want{}))
}

// Load follows weights, and leaves a node that is slow to answer.
func TestLeastLoaded(t *testing.T) {
	v := pool([3]uint64{100, 0, 3}, [3]uint64{100, 0, 1})
	count := map[string]int{}
	for range 4000 {
		count[choose(v, want{}, nil).Server.Name]++
	}
	if count["0"] < 2600 || count["1"] < 400 {
		t.Errorf("weights 3 and 1 gave %v", count)
	}
	v = pool([3]uint64{100, 0, 1}, [3]uint64{100, 0, 1})
	v.Pool[0].inFlight.Store(10)
	busy := v.Pool[0].Server.Name
	count = map[string]int{}
	for range 1000 {
		count[choose(v, want{}, nil).Server.Name]++
	}
	if count[busy] > 400 {
		t.Errorf("the busy node got %v", count)
	}
}

// Nodes that alone have a history share the calls for it.
func TestFitNodesShareTheLoad(t *testing.T) {
	v := pool([3]uint64{101, 0, 1}, [3]uint64{100, 0, 3}, [3]uint64{100, 0, 1}, [3]uint64{100, 0, 1}, [3]uint64{99, 0, 1})
	v.Nodes[0].blocksFrom.Store(50)
	v.Nodes[3].blocksFrom.Store(50)
	count := map[string]int{}
	for range 4000 {
		count[choose(v, want{height: 90, lowest: 10, bounded: true}, nil).Server.Name]++
	}
	if len(count) != 2 || count["1"] < 2600 || count["2"] < 600 {
		t.Errorf("weights 3 and 1 gave %v", count)
	}
}

func TestDrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.Uint32Range(1, 1000), 1, 20).Draw(t, "weights")
		sums := make([]uint32, len(weights))
		for i, w := range weights {
			sums[i] = w
			if i > 0 {
				sums[i] += sums[i-1]
			}
		}
		at := rapid.Uint32().Draw(t, "random")
		i := drawn(sums, at)
		point := uint32(uint64(at) * uint64(sums[len(sums)-1]) >> 32)
		if point >= sums[i] || i > 0 && point < sums[i-1] {
			t.Fatalf("%d is not at %d of %v", point, i, sums)
		}
	})
}

// A view that is changed node by node is the same as one made anew.
func TestViewWith(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := pool([3]uint64{100, 0, 1}, [3]uint64{100, 0, 2}, [3]uint64{100, 1, 3}, [3]uint64{100, 0, 4})
		var nodes []*Node
		for _, x := range v.Nodes {
			nodes = append(nodes, x.Node)
		}
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			n := nodes[rapid.IntRange(0, 3).Draw(t, "node")]
			n.state.Healthy = rapid.Bool().Draw(t, "healthy")
			n.state.Known = rapid.Bool().Draw(t, "known")
			n.state.Height = rapid.Uint64Range(98, 102).Draw(t, "height")
			v = v.with(n)
		}
		again := (&View{}).rebuilt(nodes)
		if len(v.Pool) != len(again.Pool) || v.Front != again.Front || len(v.weights) != v.Front {
			t.Fatalf("%d and %d in the pool, %d and %d in front", len(v.Pool), len(again.Pool), v.Front, again.Front)
		}
		for i := 1; i < len(v.Pool); i++ {
			if fresher(v.Pool[i-1], v.Pool[i]) > 0 {
				t.Fatal("the pool is out of order")
			}
		}
	})
}

// route does for a call what is done before it is sent: it is read, planned, and a
// node is chosen.
func route(c *chooser, v *View, j *job) *NodeView {
	j.decode()
	need := jsonrpc.NeedOf(&j.calls[0])
	return c.choose(v, plan(need, 100, 100), j, &j.calls[0], &need)
}

// usual are the calls that make up most of what nodes are asked.
var usual = map[string]string{
	"eth_blockNumber":           `[]`,
	"eth_chainId":               `[]`,
	"eth_getBalance":            `["0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266","latest"]`,
	"eth_call":                  `[{"to":"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266","data":"0x70a08231"},{"blockNumber":"0x64"}]`,
	"eth_getLogs":               `[{"address":"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266","fromBlock":"0x1","toBlock":"latest"}]`,
	"eth_getBlockByNumber":      `["0x50",false]`,
	"eth_getTransactionReceipt": `["0xf2ee15ea639b73fa3db9b34a245bdfa015c260c598b211bf05a1ecc4b3e3b4f2"]`,
}

func jobFor(method string) *job {
	j := jobs.Get().(*job)
	j.request.Body = fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, usual[method])
	return j
}

func fleetOf(count int) *View {
	nodes := make([][3]uint64, count)
	for i := range nodes {
		nodes[i] = [3]uint64{100, 0, 1}
	}
	return pool(nodes...)
}

// To read a usual call and to find its node allocates nothing, whatever the fleet.
func TestRouteAllocatesNothing(t *testing.T) {
	c := newChooser("test", nil)
	for _, count := range []int{4, 64, 500} {
		v := fleetOf(count)
		for method := range usual {
			j := jobFor(method)
			if got := testing.AllocsPerRun(100, func() {
				if route(c, v, j) == nil {
					t.Fatal("no node was found")
				}
			}); got != 0 {
				t.Errorf("%s over %d nodes: %v allocations", method, count, got)
			}
			j.release()
		}
	}
}

// The cost of a call does not grow with the fleet.
func BenchmarkRoute(b *testing.B) {
	c := newChooser("test", nil)
	for _, count := range []int{4, 64, 500} {
		v := fleetOf(count)
		for _, method := range []string{"eth_blockNumber", "eth_call", "eth_getLogs"} {
			b.Run(fmt.Sprintf("%s/%d nodes", method, count), func(b *testing.B) {
				j := jobFor(method)
				b.ReportAllocs()
				for b.Loop() {
					if route(c, v, j) == nil {
						b.Fatal("no node was found")
					}
				}
				j.release()
			})
		}
	}
}
