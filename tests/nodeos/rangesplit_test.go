//go:build nodeos

package nodeos

import (
	"fmt"
	"path/filepath"
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
	t.Run("gateway", func(t *testing.T) { testStitched(t, h, archived, retained) })
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

// testArchives compares the archives themselves with the node.
func testArchives(t *testing.T, h *History, archived, retained *statehistory.Archive) {
	for name, a := range map[string]*statehistory.Archive{"archived": archived, "retained": retained} {
		t.Run(name, func(t *testing.T) {
			s, r := serve(t, a), a.Range()
			for name, q := range requests(r.Begin, r.End) {
				t.Run(name, func(t *testing.T) {
					want := ask(t, h.Whole.SHiP, q, 1)
					// No file of the archive has the block before.
					want[0].HasPrev = false
					want[0].Message = ship.AppendBlock(nil, &want[0].Block)
					SameBlocks(t, ask(t, s.Addr(), q, r.Begin), want)

					// These nodes know no requests of version 1, so the result is told from one
					// of version 0.
					q.V1, q.FetchFinality = true, true
					for i := range want {
						want[i].V1 = true
						want[i].Message = ship.AppendBlock(nil, &want[i].Block)
					}
					SameBlocks(t, ask(t, s.Addr(), q, r.Begin), want)
				})
			}
			c := Dial(t, s.Addr())
			last := ask(t, h.Whole.SHiP, ship.BlocksRequest{Start: r.End - 1, End: r.End, MaxInFlight: 1}, 1)[0].This
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
	q := Everything(h.Snapshot+1, h.Snapshot+3)
	SameBlocks(t, ask(t, h.Joined.SHiP, q, 1), ask(t, h.Whole.SHiP, q, 1))
}

// testStitched puts the product in front of two replicas of either archive and
// the node from the snapshot. The node with all blocks is not among its servers.
func testStitched(t *testing.T, h *History, archived, retained *statehistory.Archive) {
	bin := BuildGateway(t)
	replicas := []string{"archived-1", "archived-2"}
	servers := map[string]*statehistory.Server{
		"archived-1": serve(t, archived), "archived-2": serve(t, archived),
		"retained-1": serve(t, retained), "retained-2": serve(t, retained),
	}
	list := []map[string]any{{"name": h.Joined.Name, "endpoint": h.Joined.SHiP, "enabled": true}}
	for name, s := range servers {
		r := archived.Range()
		if name[0] == 'r' {
			r = retained.Range()
		}
		list = append(list, map[string]any{
			"name": name, "endpoint": s.Addr(), "enabled": true, "max_sessions": 32,
			"role": "frozen", "range": map[string]uint32{"begin": r.Begin, "end": r.End},
		})
	}
	g := h.startStitched(t, bin, list)
	for name := range servers {
		g.waitServerUp(t, name)
	}
	g.WaitUp(t, h.Joined)

	for name, q := range requests(2, h.Snapshot+3) {
		t.Run(name, func(t *testing.T) {
			SameBlocks(t, ask(t, g.SHiP, q, 1), ask(t, h.Whole.SHiP, q, 1))
		})
	}
	t.Run("version 1 within the archives", func(t *testing.T) {
		q := Everything(2, h.Snapshot+1)
		want := ask(t, h.Whole.SHiP, q, 1)
		for i := range want {
			want[i].V1 = true
			want[i].Message = ship.AppendBlock(nil, &want[i].Block)
		}
		q.V1, q.FetchFinality = true, true
		SameBlocks(t, ask(t, g.SHiP, q, 1), want)
	})
	t.Run("a replica dies on the way to the tip", func(t *testing.T) {
		c := Dial(t, g.SHiP)
		c.Ask(Everything(2, NoEnd))
		c.Until(h.Seam / 2)
		before := g.Failovers(t)
		servers[g.servingServer(t, replicas)].Close()
		c.Until(h.Seam - 1)
		if g.Failovers(t) == before {
			t.Error("the archive that was closed was not in use")
		}
		c.Until(h.Snapshot + 2)
		h.GoOn(t)
		c.Until(h.Snapshot + 10)
		h.StandStill(t)
		h.CheckRepeats(t, c.Repeats)
		h.Whole.WaitBlock(t, c.last.Num)
		SameBlocks(t, c.Results, ask(t, h.Whole.SHiP, Everything(2, c.last.Num+1), 1))
	})
	// Each of the requests has passed both seams, and the retained archive has no
	// block before its first one.
	for _, name := range []string{"fleet_router_handoffs_total", "fleet_router_upstream_prev_blocks_filled_total"} {
		if n := g.Metric(t, name, ""); n < float64(len(requests(0, 0))) {
			t.Errorf("%s is %v", name, n)
		}
	}
}

// startStitched runs the product in front of these servers, which are those of
// a fleet-router file.
func (h *History) startStitched(t testing.TB, bin string, servers []map[string]any) *Gateway {
	t.Helper()
	g := &Gateway{SHiP: FreeAddr(t), Admin: FreeAddr(t)}
	config := filepath.Join(t.TempDir(), "config.json")
	writeJSON(t, config, map[string]any{
		"listen_address":         "127.0.0.1",
		"listen_port":            port(g.SHiP),
		"metrics_address":        "127.0.0.1",
		"metrics_port":           port(g.Admin),
		"chain_id":               fmt.Sprint(h.ChainID),
		"upstream_reconnect_ms":  200,
		"upstream_monitoring_ms": 5000,
		"upstream_status_ms":     1000,
		"servers":                servers,
	})
	g.run(t, bin, config)
	return g
}
