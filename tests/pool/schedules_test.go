package pool

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"flotilla/gateway/simulator"
	"flotilla/tests/scene"
)

// TestRandomSchedules plays random faults on random fleets while a client
// streams: whatever happens, it gets every block once and in order, and is
// never closed. A schedule that fails is named by its seed: -seed plays it
// again.
func TestRandomSchedules(t *testing.T) {
	scene.Schedules(t, 60, playSchedule)
}

// schedule is one play: a fleet, and what happens to it.
type schedule struct {
	*world
	rng    *rand.Rand
	client *simulator.Client
	log    []string
	// Five unclean ends at one block close a client, as documented. So no more
	// than two are caused while it does not move, and two more are laid out.
	last          uint32
	caused, lying int
}

func playSchedule(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 1))
	lag := 1 + uint32(rng.IntN(40))
	sizes := simulator.Sizes{Block: rng.IntN(300), Traces: rng.IntN(3000), Deltas: rng.IntN(2000)}
	inBubble(t, simulator.ChainOptions{Seed: fmt.Sprint(seed), Head: 200, LIBLag: lag, Sizes: sizes}, func(t *testing.T, w *world) {
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
		s.Node(simulator.Options{
			V0Only: len(s.Nodes) > 0 && s.chance(0.2), Whole: s.chance(0.3), KeepAlives: false,
			RaiseStart: s.chance(0.2), NoChainID: s.chance(0.2), OneQueue: s.chance(0.2),
		}, priority(uint32(s.rng.IntN(2))))
	}
	s.Config.HoldWait = time.Hour
	s.Config.StallTimeout = 10 * time.Second
	defer s.Start()()
	c := s.Dial(simulator.ClientOptions{AckEvery: 1 + uint32(s.rng.IntN(3)), CheckPayload: true})
	s.client = c
	q := scene.Everything(2+uint32(s.rng.IntN(150)), 1<<31, 3+uint32(s.rng.IntN(20)))
	// A v1 request needs a node that knows it, as the first one does; when that
	// one is down the client waits for it.
	q.V1 = s.chance(0.5)
	q.Irreversible = s.chance(0.2)
	s.Ask(c, q)
	for range 10 + s.rng.IntN(20) {
		s.Chain.Advance(uint32(s.rng.IntN(8)))
		s.act(s.Nodes[s.rng.IntN(len(s.Nodes))])
		time.Sleep(time.Duration(s.rng.IntN(4000)) * time.Millisecond)
	}
	for _, n := range s.Nodes {
		n.Thaw()
		n.Stall(false)
		n.Mute(false)
		n.Busy(false)
		n.Hang(false)
		n.Heal()
		n.Pin(false)
		n.Lag(0)
		s.restart(n)
	}
	s.Chain.Advance(10)
	last := s.Chain.Head().Num
	if q.Irreversible {
		last = s.Chain.LIB().Num
	}
	s.Reaches(c, last)
	s.Clean(c)
	c.Close()
}

func (s *schedule) chance(p float64) bool { return s.rng.Float64() < p }

func (s *schedule) restart(n *simulator.Node) {
	if err := n.Restart(); err != nil {
		s.T.Fatal(err)
	}
}

// act does one thing to a node, or to the chain.
func (s *schedule) act(n *simulator.Node) {
	acts := []struct {
		name string
		do   func()
	}{
		{"kill", s.unclean(n.Kill)},
		{"restart", func() { s.restart(n) }},
		{"drop links", s.unclean(n.DropLinks)},
		{"close cleanly", n.CloseCleanly},
		{"freeze", n.Freeze},
		{"thaw", n.Thaw},
		{"stall", func() { n.Stall(true) }},
		{"no stall", func() { n.Stall(false) }},
		{"mute", func() { n.Mute(true) }},
		{"no mute", func() { n.Mute(false) }},
		{"busy", func() { n.Busy(true) }},
		{"not busy", func() { n.Busy(false) }},
		{"hang", func() { n.Hang(true) }},
		{"no hang", func() { n.Hang(false) }},
		{"pin", func() { n.Pin(true) }},
		{"no pin", func() { n.Pin(false) }},
		{"lag", func() { n.Lag(uint32(s.rng.IntN(5))) }},
		{"tear", s.lay(n, simulator.Tear)},
		{"drop", s.lay(n, simulator.Drop)},
		{"replay", func() { n.Inject(simulator.Fault{Kind: simulator.Replay, Times: 1, Count: uint32(1 + s.rng.IntN(5))}) }},
		{"fork", func() { _, _ = s.Chain.Reorg(1 + uint32(s.rng.IntN(12))) }},
	}
	a := acts[s.rng.IntN(len(acts))]
	s.log = append(s.log, a.name+" "+n.Addr())
	a.do()
}

// unclean is do, unless too many links have ended uncleanly at this block.
func (s *schedule) unclean(do func()) func() {
	return func() {
		if last := s.client.Report().Last.Num; last != s.last {
			s.last, s.caused = last, 0
		}
		if s.caused++; s.caused <= 2 {
			do()
		}
	}
}

// lay makes the node fail once at a block to come.
func (s *schedule) lay(n *simulator.Node, kind simulator.Kind) func() {
	return func() {
		if s.lying++; s.lying <= 2 {
			n.Inject(simulator.Fault{Kind: kind, Block: s.ahead(), Times: 1})
		}
	}
}

func (s *schedule) ahead() uint32 { return s.Chain.Head().Num + uint32(s.rng.IntN(6)) }
