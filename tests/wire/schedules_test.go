package wire

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"flotilla/gateway/simulator"
	"flotilla/tests/scene"
)

// TestSchedules plays random faults on the links to random nodes, over a bad
// link to the client: whatever happens, it gets every block once and in order,
// and is never closed. A schedule that fails is named by its seed: -seed plays
// it again.
func TestSchedules(t *testing.T) {
	scene.Schedules(t, 100, playSchedule)
}

// schedule is one play: a fleet, and what happens to its cables.
type schedule struct {
	*world
	rng    *rand.Rand
	client *simulator.Client
	// irreversible is that the client wants no other blocks.
	irreversible bool
	log          []string
	budget
}

func playSchedule(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	chain := simulator.ChainOptions{
		Seed: fmt.Sprint(seed), Head: 200, LIBLag: 1 + uint32(rng.IntN(40)),
		Sizes: simulator.Sizes{Block: rng.IntN(100), Traces: rng.IntN(900), Deltas: rng.IntN(500), Finality: rng.IntN(200)},
	}
	inBubble(t, seed, chain, func(t *testing.T, w *world) {
		s := &schedule{world: w, rng: rng}
		defer func() {
			if t.Failed() {
				t.Logf("seed %d; what happened: %v", seed, s.log)
			}
		}()
		s.play()
	})
}

func (s *schedule) play() {
	for range 2 + s.rng.IntN(3) {
		_, server := s.node(simulator.Options{
			// The first node knows all that the client may ask for.
			V0Only: len(s.Nodes) > 0 && s.chance(0.3), Whole: s.chance(0.3),
			RaiseStart: s.chance(0.2), NoChainID: s.chance(0.2), OneQueue: s.chance(0.2),
		})
		server.Priority = uint32(s.rng.IntN(2))
		s.plan(server.Endpoint, s.shape(), s.shape())
	}
	s.Config.HoldWait = time.Hour
	s.Config.StallTimeout = 10 * time.Second
	s.plan(scene.Address, s.shape(), s.shape())
	defer s.Start()()
	c := s.Dial(simulator.ClientOptions{AckEvery: 1 + uint32(s.rng.IntN(3)), CheckPayload: true})
	s.client = c
	q := scene.Everything(2+uint32(s.rng.IntN(150)), 1<<31, 3+uint32(s.rng.IntN(20)))
	q.V1 = s.chance(0.5)
	q.FetchFinality = q.V1 && s.chance(0.5)
	q.Irreversible = s.chance(0.2)
	s.irreversible = q.Irreversible
	s.Ask(c, q)
	for range 10 + s.rng.IntN(20) {
		s.Chain.Advance(uint32(s.rng.IntN(8)))
		s.act(s.Nodes[s.rng.IntN(len(s.Nodes))])
		time.Sleep(time.Duration(s.rng.IntN(4000)) * time.Millisecond)
	}
	s.mend()
	s.Chain.Advance(10)
	last := s.last()
	s.Reaches(c, last)
	r := c.Report()
	if err := r.Err(); err != nil {
		s.T.Error(err)
	}
	if blocks := uint64(last - q.Start + 1); r.Blocks < blocks || r.IDless > 0 || r.Blocks > blocks && r.Forks == 0 {
		s.T.Errorf("%d blocks, %d without an id and %d forks came, %d blocks were due", r.Blocks, r.IDless, r.Forks, blocks)
	}
	if end, ended := c.End(); ended {
		s.T.Errorf("the client was closed: %v", end)
	}
	c.Close()
}

// last is the last block that the client can be sent now.
func (s *schedule) last() uint32 {
	if s.irreversible {
		return s.Chain.LIB().Num
	}
	return s.Chain.Head().Num
}

// mend makes all well again but the links that are half-open: those have to be
// found out.
func (s *schedule) mend() {
	for _, n := range s.Nodes {
		n.Pin(false)
		n.Lag(0)
		s.net.OnDial(n.Addr(), nil)
		for _, l := range s.net.Open(n.Addr()) {
			s.reshape(l, Shape{}, Shape{})
			l.Up.Stall(false)
			l.Down.Stall(false)
		}
	}
}

func (s *schedule) chance(p float64) bool { return s.rng.Float64() < p }

// upTo is a random time below d.
func (s *schedule) upTo(d time.Duration) time.Duration { return time.Duration(s.rng.Int64N(int64(d))) }

// shape makes up how one direction is, plain often enough.
func (s *schedule) shape() (sh Shape) {
	if s.chance(0.5) {
		sh.Latency = s.upTo(200 * time.Millisecond)
	}
	if s.chance(0.3) {
		sh.Jitter = 1 + s.upTo(200*time.Millisecond)
	}
	if s.chance(0.2) {
		sh.Bandwidth = 30_000 + s.rng.IntN(1_000_000)
	}
	if s.chance(0.5) {
		for range 1 + s.rng.IntN(20) {
			// As many below 10 as below 100, 1000 and so on.
			sh.Slices = append(sh.Slices, 1+s.rng.IntN(1<<(1+s.rng.IntN(14))))
		}
	}
	return sh
}

// plan shapes the links to an address that will be dialed.
func (s *schedule) plan(address string, up, down Shape) {
	s.net.OnDial(address, func(l *Link) { s.reshape(l, up, down) })
}

func (s *schedule) reshape(l *Link, up, down Shape) {
	l.Up.Shape(up)
	l.Down.Shape(down)
}

// act does one thing to the links of a node, to the node or to the chain.
func (s *schedule) act(n *simulator.Node) {
	each := func(do func(*Link)) func() {
		return func() {
			for _, l := range s.net.Open(n.Addr()) {
				do(l)
			}
		}
	}
	acts := []struct {
		name string
		do   func()
	}{
		{"reshape", func() {
			up, down := s.shape(), s.shape()
			s.plan(n.Addr(), up, down)
			each(func(l *Link) { s.reshape(l, up, down) })()
		}},
		{"reset", s.unclean(each((*Link).Reset))},
		{"reset later down", s.later(n, func(l *Link, n int64) { l.Down.ResetAfter(n) }, 20_000)},
		{"reset later up", s.later(n, func(l *Link, n int64) { l.Up.ResetAfter(n) }, 200)},
		{"half-close down", s.unclean(each(func(l *Link) { l.Down.Finish() }))},
		{"half-close up", s.unclean(each(func(l *Link) { l.Up.Finish() }))},
		{"lose", each((*Link).Lose)},
		{"lose down", each(func(l *Link) { l.Down.Lose() })},
		{"lose up", each(func(l *Link) { l.Up.Lose() })},
		{"stall down", each(func(l *Link) { l.Down.Stall(true) })},
		{"stall up", each(func(l *Link) { l.Up.Stall(true) })},
		{"no stall", each(func(l *Link) { l.Up.Stall(false); l.Down.Stall(false) })},
		{"pin", func() { n.Pin(true) }},
		{"no pin", func() { n.Pin(false) }},
		{"lag", func() { n.Lag(uint32(s.rng.IntN(30))) }},
		{"fork", s.fork},
		{"fork", s.fork},
	}
	a := acts[s.rng.IntN(len(acts))]
	s.log = append(s.log, a.name+" "+n.Addr())
	a.do()
}

// fork replaces the newest blocks. Nodes that are pinned or lag stay behind on
// them, even when the branch is irreversibly dead.
func (s *schedule) fork() { _, _ = s.Chain.Reorg(1 + uint32(s.rng.IntN(12))) }

// budget keeps count of the unclean ends that the schedule causes: five at one
// block close a client that is owed it, as documented.
type budget struct {
	// caused are the ends since the client last had all there was.
	caused int
	// behind is the last block that could be sent when the newest of them came:
	// a client that is beyond it has got the block that they are counted for.
	behind uint32
	// armed are the links that will be reset sooner or later.
	armed []*Link
}

// maxEnds is how many unclean ends a client bears at one block.
const maxEnds = 4

// afford reports whether one more unclean end is within the budget.
func (s *schedule) afford() bool {
	if s.client.Report().Last.Num > s.behind {
		s.caused = 0
	}
	var still []*Link
	for _, l := range s.armed {
		if l.Ended() {
			s.count()
		} else {
			still = append(still, l)
		}
	}
	s.armed = still
	return s.caused+len(s.armed) < maxEnds
}

// count takes in that a link has ended.
func (s *schedule) count() {
	s.caused++
	s.behind = s.last()
}

// unclean is do, unless that could end too many links at this block.
func (s *schedule) unclean(do func()) func() {
	return func() {
		if s.afford() {
			s.count()
			do()
		}
	}
}

// later arms one of the links to a node, as far as the budget goes.
func (s *schedule) later(n *simulator.Node, arm func(*Link, int64), bytes int64) func() {
	return func() {
		open := s.net.Open(n.Addr())
		if len(open) == 0 || !s.afford() {
			return
		}
		l := open[s.rng.IntN(len(open))]
		s.armed = append(s.armed, l)
		arm(l, s.rng.Int64N(bytes))
	}
}
