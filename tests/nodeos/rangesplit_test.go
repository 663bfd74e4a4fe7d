//go:build nodeos

package nodeos

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"flotilla/gateway/ship"
	"flotilla/tests/statehistory"
)

// The history is split over two archives, which read what a real node has
// written, and a live node that began with a snapshot. Whatever the way that
// its blocks come, they are the bytes that the node with all of it sends.
func TestRangeSplit(t *testing.T) {
	h := NewHistory(t, 410)
	archived, retained := h.Archived(t), h.Retained(t)
	t.Run("archives", func(t *testing.T) { testArchives(t, h, archived, retained) })
	t.Run("live node from the snapshot", func(t *testing.T) { testJoined(t, h) })
	bin := BuildGateway(t)
	t.Run("damaged archive", func(t *testing.T) { testDamaged(t, h, bin, archived, retained) })
	t.Run("archive without a block log", func(t *testing.T) { testNoBlockLog(t, h, bin, archived) })
	t.Run("version 1", func(t *testing.T) { testVersion1(t, h, bin) })
	t.Run("gateway", func(t *testing.T) { testStitched(t, h, bin, archived, retained) })
}

// requests are for the same blocks, each with other parts of them.
func requests(start, end uint32) map[string]ship.BlocksRequest {
	q := ship.BlocksRequest{Start: start, End: end, MaxInFlight: 100}
	ids, deltas, traces, both, blocks, all := q, q, q, q, q, q
	deltas.FetchDeltas = true
	traces.FetchTraces = true
	both.FetchTraces, both.FetchDeltas = true, true
	blocks.FetchBlock = true
	all.FetchBlock, all.FetchTraces, all.FetchDeltas = true, true, true
	irreversible := all
	irreversible.Irreversible = true
	return map[string]ship.BlocksRequest{
		"ids": ids, "deltas": deltas, "traces": traces, "traces and deltas": both, "blocks": blocks,
		"everything": all, "everything irreversible": irreversible,
	}
}

// ask is what the endpoint at addr sends for a request that ends.
func ask(t testing.TB, addr string, q ship.BlocksRequest, noPrev uint32) []Result {
	t.Helper()
	c := Dial(t, addr)
	defer c.Close()
	c.noPrev = noPrev
	c.Ask(q)
	c.Until(q.End - 1)
	return c.Results
}

// version1 is results of version 0 as they would be in version 1, which these
// nodes do not know, and without finality data.
func version1(results []Result) []Result {
	for i := range results {
		r := &results[i]
		r.V1 = true
		r.Message = ship.AppendBlock(nil, &r.Block)
	}
	return results
}

// testArchives compares the archives themselves with the node.
func testArchives(t *testing.T, h *History, archived, retained *statehistory.Archive) {
	l, err := statehistory.OpenLog(h.folder("state-history", "trace_history.log"))
	if err != nil {
		t.Fatal(err)
	}
	if l.Range().End <= retained.Range().End {
		t.Errorf("the files hold the blocks [%d,%d), so the archive has nothing to hold back", l.Range().Begin, l.Range().End)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	for name, a := range map[string]*statehistory.Archive{"archived": archived, "retained": retained} {
		t.Run(name, func(t *testing.T) {
			s, r := serve(t, a), a.Range()
			for name, q := range requests(r.Begin, r.End) {
				t.Run(name, func(t *testing.T) {
					want := directly(t, h.Whole, q)
					// No file of the archive has the block before.
					want[0].HasPrev = false
					want[0].Message = ship.AppendBlock(nil, &want[0].Block)
					SameBlocks(t, ask(t, s.Addr(), q, r.Begin), want)
				})
			}
			t.Run("version 1", func(t *testing.T) {
				q := Everything(r.Begin+1, r.End)
				want := version1(directly(t, h.Whole, q))
				q.V1, q.FetchFinality = true, true
				SameBlocks(t, ask(t, s.Addr(), q, 1), want)
			})
			c := Dial(t, s.Addr())
			last := directly(t, h.Whole, Everything(r.End-1, r.End))[0].This
			want := ship.Status{
				Head: last, LIB: last, HasChainID: true, ChainID: Dial(t, h.Whole.SHiP).Status().ChainID,
				Trace: ship.Range{Begin: max(r.Begin, 2), End: r.End}, ChainState: r,
			}
			if got := c.Status(); got != want {
				t.Errorf("status %+v, want %+v", got, want)
			}
		})
	}
}

// testJoined makes sure that the node from the snapshot has the ranges that the
// documents say, and the bytes of the others.
func testJoined(t *testing.T, h *History) {
	s := Dial(t, h.Joined.SHiP).Status()
	if s.Trace.Begin != h.Snapshot+1 || s.ChainState.Begin != h.Snapshot {
		t.Errorf("traces from %d and chain state from %d, after a snapshot at %d", s.Trace.Begin, s.ChainState.Begin, h.Snapshot)
	}
	q := Everything(h.Snapshot+1, h.Last+1)
	SameBlocks(t, directly(t, h.Joined, q), directly(t, h.Whole, q))
}

// testStitched puts the product in front of two replicas of either archive and
// the node from the snapshot. The node with all blocks is not among its servers.
func testStitched(t *testing.T, h *History, bin string, archived, retained *statehistory.Archive) {
	replicas := map[string]*statehistory.Server{"archived-1": serve(t, archived), "archived-2": serve(t, archived)}
	g := h.startStitched(t, bin,
		live(h.Joined),
		frozen("archived-1", replicas["archived-1"], archived), frozen("archived-2", replicas["archived-2"], archived),
		frozen("retained-1", serve(t, retained), retained), frozen("retained-2", serve(t, retained), retained))

	for name, q := range requests(2, h.Last+1) {
		t.Run(name, func(t *testing.T) {
			SameBlocks(t, ask(t, g.SHiP, q, 1), directly(t, h.Whole, q))
		})
	}
	t.Run("a replica dies on the way to the tip", func(t *testing.T) {
		c := Dial(t, g.SHiP)
		c.Ask(Everything(2, NoEnd))
		c.Until(h.Seam / 2)
		before := g.Failovers(t)
		replicas[g.servingServer(t, slices.Collect(maps.Keys(replicas)))].Close()
		c.Until(h.Seam)
		if g.Failovers(t) == before {
			t.Error("the archive that was closed was not in use")
		}
		pastHead(t, h.Fleet, c)
		c.More(4)
		h.CheckRepeats(t, c.Repeats)
		h.Whole.WaitBlock(t, c.last.Num)
		SameBlocks(t, c.Results, directly(t, h.Whole, Everything(2, c.last.Num+1)))
	})
	// Each of the requests has passed both seams, and the second archive has no
	// block before its first one.
	for _, name := range []string{"fleet_router_handoffs_total", "fleet_router_upstream_prev_blocks_filled_total"} {
		if n := g.Metric(t, name, ""); n < float64(len(requests(0, 0))) {
			t.Errorf("%s is %v", name, n)
		}
	}
}

// testDamaged damages one block in the files of an archive.
func testDamaged(t *testing.T, h *History, bin string, archived, retained *statehistory.Archive) {
	const block = stride + stride/2
	damaged := h.Damaged(t, block)
	check := func(t *testing.T, g *Gateway) {
		t.Helper()
		q := Everything(2, h.Last+1)
		SameBlocks(t, ask(t, g.SHiP, q, 1), directly(t, h.Whole, q))
		// Nobody else can have met the damage.
		if n := g.Metric(t, "fleet_router_upstream_block_failures_total", `server="damaged"`); n < 1 || n > 2 {
			t.Errorf("%v strikes against the damaged archive, want 1 or 2", n)
		}
	}
	t.Run("its replica has the block", func(t *testing.T) {
		first := frozen("damaged", serveDamaged(t, damaged, block), damaged)
		second := frozen("sound", serve(t, archived), archived)
		second["priority"] = 1
		check(t, h.startStitched(t, bin, first, second, frozen("retained", serve(t, retained), retained), live(h.Joined)))
	})
	t.Run("a live node has the block", func(t *testing.T) {
		check(t, h.startStitched(t, bin,
			frozen("damaged", serveDamaged(t, damaged, block), damaged), frozen("retained", serve(t, retained), retained), live(h.Whole)))
	})
}

// testNoBlockLog leaves the block log of an archive out. Its blocks are on a
// live node.
func testNoBlockLog(t *testing.T, h *History, bin string, archived *statehistory.Archive) {
	bare := h.RetainedWithoutBlocks(t)
	g := h.startStitched(t, bin, frozen("archived", serve(t, archived), archived), frozen("bare", serve(t, bare), bare), live(h.Whole))
	q := Everything(2, h.Last+1)
	want := directly(t, h.Whole, q)
	for range 2 { // the first session finds out, the second one is sent elsewhere from the start
		SameBlocks(t, ask(t, g.SHiP, q, 1), want)
	}
	if n := g.Metric(t, "fleet_router_failovers_total", `reason="no_block_log"`); n != 1 {
		t.Errorf("%v sessions have left the archive without a block log, want 1", n)
	}
	if n := g.Metric(t, "fleet_router_upstream_no_block_log", `server="bare"`); n != 1 {
		t.Errorf("the archive without a block log is not known as one: %v", n)
	}
}

// testVersion1 asks for finality data, which nobody has, with requests that only
// the archives understand.
func testVersion1(t *testing.T, h *History, bin string) {
	newer := h.Version1(t)
	archived, retained := newer.Archived(t), newer.Retained(t)
	g := h.startStitched(t, bin, frozen("archived", serve(t, archived), archived), frozen("retained", serve(t, retained), retained), live(h.Whole))
	q := Everything(2, h.Snapshot+1)
	want := version1(directly(t, h.Whole, q))
	q.V1, q.FetchFinality = true, true
	SameBlocks(t, ask(t, g.SHiP, q, 1), want)
}

// live and frozen are servers as a fleet-router file lists them.
func live(n *Node) map[string]any {
	return map[string]any{"name": n.Name, "endpoint": n.SHiP, "enabled": true}
}

func frozen(name string, s *statehistory.Server, a *statehistory.Archive) map[string]any {
	r := a.Range()
	return map[string]any{
		"name": name, "endpoint": s.Addr(), "enabled": true, "max_sessions": 32,
		"role": "frozen", "range": map[string]uint32{"begin": r.Begin, "end": r.End},
	}
}

// startStitched runs the product in front of these servers and returns when it
// has found all of them.
func (h *History) startStitched(t testing.TB, bin string, servers ...map[string]any) *Gateway {
	t.Helper()
	g := &Gateway{SHiP: FreeAddr(t), Admin: FreeAddr(t)}
	config := filepath.Join(t.TempDir(), "config.json")
	writeJSON(t, config, map[string]any{
		"listen_address":         "127.0.0.1",
		"listen_port":            port(g.SHiP),
		"metrics_address":        "127.0.0.1",
		"metrics_port":           port(g.Admin),
		"chain_id":               h.ChainID.String(),
		"upstream_reconnect_ms":  200,
		"upstream_monitoring_ms": 5000,
		"upstream_status_ms":     1000,
		"servers":                servers,
	})
	g.run(t, bin, config)
	for _, s := range servers {
		g.waitServerUp(t, s["name"].(string))
	}
	return g
}
