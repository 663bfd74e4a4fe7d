package stitched

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/simulator"
	"flotilla/tests/scene"
)

// TestRandomSchedules plays random faults on range-split fleets while a client
// reads them from the first block to the tip: whatever happens, it gets every
// block once, whole and in order, and is never closed. A schedule that fails
// is named by its seed: -seed plays it again.
func TestRandomSchedules(t *testing.T) {
	scene.Schedules(t, 40, playSchedule)
}

// schedule is one play: a fleet, and what happens to it.
type schedule struct {
	*scene.World
	fleet  *scene.Fleet
	rng    *rand.Rand
	client *simulator.Client
	log    []string
	// Five strikes at one block close a client, as documented. So no more than
	// one link is cut while it does not move, and one fault is laid at a block,
	// for each of the two nodes that have it.
	last uint32
	cuts int
	laid map[uint32]bool
}

func playSchedule(t *testing.T, seed uint64) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 2))
	chain := simulator.ChainOptions{Seed: fmt.Sprint(seed), Head: head, LIBLag: 1 + uint32(rng.IntN(40)),
		Sizes: simulator.Sizes{Block: rng.IntN(300), Traces: rng.IntN(3000), Deltas: rng.IntN(2000), Finality: rng.IntN(20)}}
	network := func() gateway.Network { return simulator.NewNetwork() }
	scene.InBubble(t, chain, network, func(t *testing.T, w *scene.World) {
		s := &schedule{World: w, rng: rng, laid: map[uint32]bool{}}
		defer func() {
			if t.Failed() {
				t.Logf("seed %d; what happened: %v", seed, s.log)
			}
		}()
		s.play()
	})
}

func (s *schedule) play() {
	s.fleet = s.Split(func(o *simulator.Options) {
		o.Whole, o.OneQueue = s.chance(0.3), s.chance(0.2)
	})
	s.Config.Stitching.PredialBlocks = uint32(s.rng.IntN(100))
	s.Config.Stitching.GapWait = time.Hour
	s.Config.StallTimeout = 10 * time.Second
	nodes := s.fleet.Nodes()
	for _, n := range nodes {
		n.Inject(simulator.Fault{Kind: simulator.Slow, For: 50 * time.Millisecond})
	}
	defer s.Start()()
	o := s.fleet.Strict()
	o.AckEvery = 1 + uint32(s.rng.IntN(3))
	s.client = s.Dial(o)
	q := scene.Whole(s.fleet.First, 1<<31, 3+uint32(s.rng.IntN(20)))
	q.V1, q.Irreversible = s.chance(0.7), s.chance(0.2)
	s.Ask(s.client, q)
	for range 20 + s.rng.IntN(20) {
		s.Chain.Advance(uint32(s.rng.IntN(8)))
		s.act(nodes[s.rng.IntN(len(nodes))])
		s.lay()
		time.Sleep(time.Duration(s.rng.IntN(3000)) * time.Millisecond)
	}
	for _, n := range nodes {
		n.Thaw()
		n.Mute(false)
		n.Hang(false)
		n.Heal()
		if err := n.Restart(); err != nil {
			s.T.Fatal(err)
		}
	}
	s.Chain.Advance(10)
	last := s.Chain.Head().Num
	if q.Irreversible {
		last = s.Chain.LIB().Num
	}
	r := s.Reaches(s.client, last)
	s.Clean(s.client)
	if r.Forks == 0 && r.Blocks != uint64(last-s.fleet.First+1) || r.NoPrevs > 0 {
		s.T.Errorf("%d blocks up to %d, %d without prev_block", r.Blocks, last, r.NoPrevs)
	}
}

func (s *schedule) chance(p float64) bool { return s.rng.Float64() < p }

// act does one thing to a node, or to the chain.
func (s *schedule) act(n *simulator.Node) {
	acts := []struct {
		name string
		do   func()
	}{
		{"kill", s.cut(n.Kill)},
		{"close the port", n.ClosePort},
		{"restart", func() {
			if err := n.Restart(); err != nil {
				s.T.Fatal(err)
			}
		}},
		{"drop readers", s.cut(n.DropReaders)},
		{"drop standbys", n.DropStandbys},
		{"close cleanly", n.CloseCleanly},
		{"freeze", n.Freeze},
		{"thaw", n.Thaw},
		{"mute", func() { n.Mute(true) }},
		{"no mute", func() { n.Mute(false) }},
		{"busy", s.greet(n, simulator.Busy)},
		{"refuse", s.greet(n, simulator.Refuse)},
		{"late ABI", s.greet(n, simulator.LateABI)},
		{"bad ABI", s.greet(n, simulator.BadABI)},
		{"a standby ends", s.greet(n, simulator.DropIdle)},
		{"a standby falls silent", s.greet(n, simulator.SilenceIdle)},
		{"fork", func() { _, _ = s.Chain.Reorg(1 + uint32(s.rng.IntN(12))) }},
	}
	a := acts[s.rng.IntN(len(acts))]
	s.log = append(s.log, a.name+" "+n.Addr())
	a.do()
}

// greet makes the node fail at its next handshakes.
func (s *schedule) greet(n *simulator.Node, kind simulator.Kind) func() {
	return func() {
		n.Inject(simulator.Fault{Kind: kind, Times: 1 + s.rng.IntN(3), For: time.Duration(1+s.rng.IntN(5000)) * time.Millisecond})
	}
}

// cut is do, unless a link has been cut at this block.
func (s *schedule) cut(do func()) func() {
	return func() {
		if last := s.client.Report().Last.Num; last != s.last {
			s.last, s.cuts = last, 0
		}
		if s.cuts++; s.cuts == 1 {
			do()
		}
	}
}

// lay makes the nodes that have a block fail once at it, soon. What only an
// archive must not do is laid at archives.
func (s *schedule) lay() {
	at := s.client.Report().Last.Num + 1 + uint32(s.rng.IntN(40))
	if s.laid[at] {
		return
	}
	s.laid[at] = true
	kinds := []simulator.Kind{simulator.Drop, simulator.Tear, simulator.CloseLink, simulator.Silence, simulator.Stall, simulator.FreezeNode}
	holders, archives := s.fleet.Holders(at)
	if archives {
		kinds = append(kinds, simulator.NoIDs, simulator.HeadOnly, simulator.Jump, simulator.Replay, simulator.Omit, simulator.Truncate,
			simulator.OtherVersion, simulator.StrayStatus, simulator.Garbage)
	}
	f := simulator.Fault{
		Kind: kinds[s.rng.IntN(len(kinds))], Block: at, Times: 1, Count: 1 + uint32(s.rng.IntN(5)),
		Field: simulator.FieldTraces + simulator.Field(s.rng.IntN(2)),
	}
	s.log = append(s.log, fmt.Sprintf("fault %d at %d", f.Kind, at))
	for _, n := range holders {
		n.Inject(f)
	}
}
