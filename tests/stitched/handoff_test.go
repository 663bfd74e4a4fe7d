package stitched

import (
	"context"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/simulator"
	"flotilla/tests/scene"
	"flotilla/tests/wire"
)

// With nodes that are 20 ms away, a handoff to a link that stands by costs less
// than that: the next leg is asked for while the last blocks of the one before
// are still on their way. Without, it costs the connect, the upgrade and the
// request.
func TestHandoffTakesLessThanARoundTrip(t *testing.T) {
	const trip = 20 * time.Millisecond
	// pace keeps the nodes from sending all that they may at once.
	const pace = time.Millisecond
	for _, tt := range []struct {
		predial uint32
		credit  uint32
		least   time.Duration
		most    time.Duration
	}{
		{predial: 100, credit: 40, most: trip / 2},
		{predial: 100, credit: 1000, most: trip / 2},
		// With credit for one block nothing can be asked ahead.
		{predial: 100, credit: 1, least: trip, most: trip + 3*pace},
		{predial: 0, credit: 40, least: 2 * trip, most: 4 * trip},
	} {
		t.Run(fmt.Sprintf("predial %d credit %d", tt.predial, tt.credit), func(t *testing.T) {
			chain := simulator.ChainOptions{Head: head, LIBLag: libLag}
			scene.InBubble(t, chain, func() gateway.Network { return wire.New(1) }, func(t *testing.T, w *scene.World) {
				net := w.Net.(*wire.Network)
				f := w.Split(nil)
				w.Config.Stitching.PredialBlocks = tt.predial
				for _, n := range f.Nodes() {
					n.Inject(simulator.Fault{Kind: simulator.Slow, For: pace})
				}
				for _, s := range w.Config.Servers {
					net.OnDial(s.Endpoint, func(l *wire.Link) {
						l.Up.Shape(wire.Shape{Latency: trip / 2})
						l.Down.Shape(wire.Shape{Latency: trip / 2})
					})
				}
				defer w.Start()()
				c := w.Dial(f.Strict())
				w.Ask(c, scene.Whole(f.First, 1<<31, tt.credit))
				whole(w, f, c, head)
				for _, seam := range f.Seams {
					if took, ok := c.Between(seam); !ok || took < tt.least || took > tt.most {
						t.Errorf("the handoff at block %d took %v, from %v to %v were due", seam, took, tt.least, tt.most)
					}
				}
			})
		})
	}
}

// A read that was under way when its deadline was set to the past may end well:
// on a busy machine its goroutine comes to it late, and finds data. What it finds
// on a link that stands by is the begin of the next leg.
func TestStandbyReadsOnForAMoment(t *testing.T) {
	chain := simulator.ChainOptions{Head: head, LIBLag: libLag}
	scene.InBubble(t, chain, func() gateway.Network { return lateNetwork{simulator.NewNetwork()} }, func(t *testing.T, w *scene.World) {
		w.OpenAdmin()
		f := w.Split(nil)
		w.Config.Stitching.PredialBlocks = 100
		for _, n := range f.Nodes() {
			n.Inject(simulator.Fault{Kind: simulator.Slow, For: time.Millisecond})
		}
		defer w.Start()()
		whole(w, f, read(w, f), head)
		// A block that got lost would have been fetched from another upstream.
		counts(w, 0, "fleet_router_failovers_total")
	})
}

// lateNetwork is a network in memory whose connections notice a deadline of the
// past when some time has gone by.
type lateNetwork struct{ *simulator.Network }

func (n lateNetwork) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	c, err := n.Network.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &lateConn{Conn: c}, nil
}

type lateConn struct {
	net.Conn
	mu   sync.Mutex
	late *time.Timer
}

func (c *lateConn) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.late != nil {
		c.late.Stop()
		c.late = nil
	}
	if at.IsZero() || at.After(time.Now()) {
		return c.Conn.SetReadDeadline(at)
	}
	c.late = time.AfterFunc(10*time.Millisecond, func() {
		// A failure shows as a read that does not end.
		_ = c.Conn.SetReadDeadline(at)
	})
	return nil
}
