// Package stitched tests the whole product in front of range-split fleets of
// simulated nodes, in bubbles of fake time and memory (testing/synctest).
package stitched

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"
	"flotilla/tests/scene"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	head   = 600
	libLag = 20
	// firstPause is the longest pause after a first strike: with its jitter, and
	// what the links' clock may add.
	firstPause = 200 * time.Millisecond
)

// inBubble runs test in a world with a chain of 600 blocks, LIB 20 behind, and
// an admin port.
func inBubble(t *testing.T, test func(t *testing.T, w *scene.World)) {
	t.Helper()
	chain := simulator.ChainOptions{Head: head, LIBLag: libLag, Sizes: simulator.Sizes{Block: 40, Traces: 300, Deltas: 70, Finality: 9}}
	network := func() gateway.Network { return simulator.NewNetwork() }
	scene.InBubble(t, chain, network, func(t *testing.T, w *scene.World) {
		w.OpenAdmin()
		test(t, w)
	})
}

// onFleet is inBubble with a fleet that has its seams at 200 and 400.
func onFleet(t *testing.T, options func(*simulator.Options), test func(t *testing.T, w *scene.World, f *scene.Fleet)) {
	t.Helper()
	inBubble(t, func(t *testing.T, w *scene.World) { test(t, w, w.Split(options)) })
}

// read has a strict client ask for everything that the fleet has and will have.
func read(w *scene.World, f *scene.Fleet) *simulator.Client {
	w.T.Helper()
	c := w.Dial(f.Strict())
	w.Ask(c, scene.Whole(f.First, 1<<31, 20))
	return c
}

// whole waits for block last and checks that the client got every block up to
// it once, each with its prev_block, the first one aside.
func whole(w *scene.World, f *scene.Fleet, c *simulator.Client, last uint32) simulator.Report {
	w.T.Helper()
	r := w.Reaches(c, last)
	w.Clean(c)
	if want := uint64(last - f.First + 1); r.Blocks != want || r.IDless+r.KeepAlives+r.NoPrevs > 0 {
		w.T.Errorf("%d blocks, %d without ids, %d keep-alives, %d without prev_block; %d blocks were due",
			r.Blocks, r.IDless, r.KeepAlives, r.NoPrevs, want)
	}
	return r
}

// counts checks a metric.
func counts(w *scene.World, want float64, name string, labels ...string) {
	w.T.Helper()
	if got := w.Metric(name, labels...); got != want {
		w.T.Errorf("%s%v is %v, want %v", name, labels, got, want)
	}
}

func closedWith(t *testing.T, c *simulator.Client, code int, reason string) {
	t.Helper()
	<-c.Done()
	if end, _ := c.End(); end.Code != code || end.Reason != reason {
		t.Errorf("closed with %d %q, want %d %q", end.Code, end.Reason, code, reason)
	}
}

func TestFromTheFirstBlockToTheTip(t *testing.T) {
	for _, v1 := range []bool{false, true} {
		t.Run(fmt.Sprintf("v1 %v", v1), func(t *testing.T) {
			onFleet(t, nil, func(t *testing.T, w *scene.World, f *scene.Fleet) {
				defer w.Start()()
				c := w.Dial(f.Strict())
				q := scene.Whole(f.First, 1<<31, 20)
				q.V1, q.FetchFinality = v1, v1
				w.Ask(c, q)
				w.Reaches(c, head)
				w.Chain.Advance(10)
				whole(w, f, c, head+10)
				for _, seam := range f.Seams {
					if took, ok := c.Between(seam); !ok || took != 0 {
						t.Errorf("the handoff at block %d took %v, %v", seam, took, ok)
					}
				}
				counts(w, 2, "fleet_router_handoffs_total")
				counts(w, 2, "fleet_router_predials_total", `result="used"`)
				counts(w, 0, "fleet_router_failovers_total")
				counts(w, 0, "fleet_router_upstream_contract_violations_total")
				// What the gateway promises an archive.
				for _, a := range []*simulator.Node{f.Old[0], f.New[0]} {
					own := a.Status().Trace
					for _, q := range a.Requests() {
						if len(q.Have) > 0 || q.V1 != v1 || q.Start < own.Begin || q.End > own.End {
							t.Errorf("an archive of %+v was asked for %+v", own, q)
						}
					}
				}
				time.Sleep(31 * time.Second)
				for _, a := range []*simulator.Node{f.Old[0], f.New[0]} {
					if _, streaming := a.Links(); streaming > 0 || a.Counters().Closes != 1 {
						t.Errorf("%d finished links are open, %d were closed with 1000", streaming, a.Counters().Closes)
					}
				}
			})
		})
	}
}

func TestStatusIsTheUnion(t *testing.T) {
	onFleet(t, nil, func(t *testing.T, w *scene.World, f *scene.Fleet) {
		defer w.Start()()
		c := w.Dial(f.Strict())
		for _, v1 := range []bool{false, true} {
			got, err := c.Status(w.Ctx, v1)
			if err != nil {
				t.Fatal(err)
			}
			all := ship.Range{Begin: f.First, End: head + 1}
			want := ship.Status{V1: v1, Head: w.Chain.Head(), LIB: w.Chain.LIB(), Trace: all, ChainState: all, HasChainID: true, ChainID: w.Chain.ID()}
			if v1 {
				want.Finality = all
			}
			if got != want {
				t.Errorf("status %+v, want %+v", got, want)
			}
		}
		for i, n := range f.Nodes() {
			if got := n.Counters().Links; got != 1 {
				t.Errorf("node %d has had %d links, the monitor's was due", i, got)
			}
		}
	})
}

// TestArchiveFails has the archive that serves fail at a block in each way,
// most of them each time that it is asked, while its replica is well.
func TestArchiveFails(t *testing.T) {
	const at = 100
	for name, tt := range map[string]struct {
		fault simulator.Fault
		// violation is the kind that is counted, empty for none; strikes is
		// whether it counts against the archive.
		violation string
		strikes   bool
		limit     time.Duration
	}{
		"drop":              {simulator.Fault{Kind: simulator.Drop}, "", true, firstPause},
		"half a message":    {simulator.Fault{Kind: simulator.Tear}, "", true, firstPause},
		"close frame":       {simulator.Fault{Kind: simulator.CloseLink, Times: 1}, "", false, firstPause},
		"killed":            {simulator.Fault{Kind: simulator.KillNode}, "", true, firstPause},
		"stall":             {simulator.Fault{Kind: simulator.Stall}, "", true, time.Minute + time.Second + firstPause},
		"silence":           {simulator.Fault{Kind: simulator.Silence}, "", false, 5*time.Second + firstPause},
		"frozen":            {simulator.Fault{Kind: simulator.FreezeNode}, "", false, 5*time.Second + firstPause},
		"idless":            {simulator.Fault{Kind: simulator.NoIDs}, "idless", true, firstPause},
		"keep-alive":        {simulator.Fault{Kind: simulator.HeadOnly}, "idless", true, firstPause},
		"gap":               {simulator.Fault{Kind: simulator.Jump, Count: 1}, "gap", true, firstPause},
		"rewind":            {simulator.Fault{Kind: simulator.Replay, Count: 2, Times: 1}, "rewind", true, firstPause},
		"no traces":         {simulator.Fault{Kind: simulator.Omit, Field: simulator.FieldTraces}, "missing_field", true, firstPause},
		"no deltas":         {simulator.Fault{Kind: simulator.Omit, Field: simulator.FieldDeltas}, "missing_field", true, firstPause},
		"no finality data":  {simulator.Fault{Kind: simulator.Omit, Field: simulator.FieldFinality}, "missing_field", true, firstPause},
		"cut payload":       {simulator.Fault{Kind: simulator.Truncate}, "missing_field", true, firstPause},
		"another version":   {simulator.Fault{Kind: simulator.OtherVersion}, "variant", true, firstPause},
		"a status":          {simulator.Fault{Kind: simulator.StrayStatus}, "variant", true, firstPause},
		"an unknown result": {simulator.Fault{Kind: simulator.Garbage}, "variant", true, firstPause},
	} {
		t.Run(name, func(t *testing.T) {
			onFleet(t, nil, func(t *testing.T, w *scene.World, f *scene.Fleet) {
				tt.fault.Block = at
				f.Old[0].Inject(tt.fault)
				defer w.Start()()
				c := read(w, f)
				r := whole(w, f, c, head)
				if r.LongestSilence > tt.limit {
					t.Errorf("the client got nothing for %v, at most %v was due", r.LongestSilence, tt.limit)
				}
				asked := 1
				if tt.fault.Kind == simulator.CloseLink {
					asked = 2 // nothing speaks against an archive that closes its links
				}
				if got := len(f.Old[0].Requests()); got != asked {
					t.Errorf("the archive was asked %d times, %d was due; its replica was there after the first", got, asked)
				}
				violations, strikes := 0.0, 0.0
				if tt.violation != "" {
					violations = 1
					counts(w, 1, "fleet_router_upstream_contract_violations_total", fmt.Sprintf("kind=%q", tt.violation))
				}
				if tt.strikes {
					strikes = 1
				}
				counts(w, violations, "fleet_router_upstream_contract_violations_total")
				counts(w, strikes, "fleet_router_upstream_block_failures_total")
				f.Old[0].Thaw()
			})
		})
	}
}

func TestResultBeyondTheCredit(t *testing.T) {
	onFleet(t, nil, func(t *testing.T, w *scene.World, f *scene.Fleet) {
		f.Old[0].Inject(simulator.Fault{Kind: simulator.Overrun, Block: 12})
		defer w.Start()()
		o := f.Strict()
		o.AckEvery = 0
		c := w.Dial(o)
		w.Ask(c, scene.Whole(f.First, 1<<31, 10))
		w.Reaches(c, 11)
		time.Sleep(time.Second)
		if err := c.Ack(1000); err != nil {
			t.Fatal(err)
		}
		whole(w, f, c, head)
		counts(w, 1, "fleet_router_upstream_contract_violations_total", `kind="credit"`)
	})
}

// A link whose request is over owes nothing more, and may send nothing more.
func TestBlockAfterTheEndOfTheRequest(t *testing.T) {
	onFleet(t, nil, func(t *testing.T, w *scene.World, f *scene.Fleet) {
		f.Old[0].Inject(simulator.Fault{Kind: simulator.Overshoot, Block: 100, Times: 1})
		f.Old[0].Inject(simulator.Fault{Kind: simulator.HeadOnly, Block: 150, Times: 1})
		defer w.Start()()
		c := w.Dial(f.Strict())
		for _, end := range []uint32{100, 150, 200} {
			w.Ask(c, scene.Whole(max(end-50, f.First), end, 20))
			w.Reaches(c, end-1)
			time.Sleep(time.Second)
		}
		w.Clean(c)
		if r := c.Report(); r.KeepAlives > 0 || r.Blocks != 150 {
			t.Errorf("%d blocks and %d keep-alives", r.Blocks, r.KeepAlives)
		}
	})
}

func TestSeamThatDoesNotContinue(t *testing.T) {
	for name, foreign := range map[string]bool{"wrong prev_block": false, "another chain": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *scene.World) {
				chain := w.Chain
				w.Stitch()
				w.Archive(2, 200, simulator.Options{}, nil)
				if foreign {
					w.Chain = simulator.NewChain(simulator.ChainOptions{Seed: "another", Head: head})
				}
				// It has block 199 too, and so a prev_block at its begin.
				bad := w.Archive(200, 400, simulator.Options{StateBegin: 199}, nil)
				w.Chain = chain
				bad.SetChainID(chain.ID())
				if !foreign {
					bad.Inject(simulator.Fault{Kind: simulator.BreakPrev, Block: 200})
				}
				w.Archive(200, 400, simulator.Options{}, func(s *config.Server) { s.Priority = 1 })
				w.Node(simulator.Options{Snapshot: 399}, nil)
				defer w.Start()()
				f := &scene.Fleet{First: 2}
				whole(w, f, read(w, f), head)
				counts(w, 1, "fleet_router_upstream_contract_violations_total", `kind="discontinuity"`)
				if got := len(bad.Requests()); got != 1 {
					t.Errorf("the bad archive was asked %d times", got)
				}
			})
		})
	}
}

// Spec "ship" 9.1.1: the peer asks the archive five times and closes.
func TestDamagedBlockComesFromALiveNode(t *testing.T) {
	inBubble(t, func(t *testing.T, w *scene.World) {
		w.Stitch()
		a := w.Archive(2, 400, simulator.Options{}, nil)
		w.Node(simulator.Options{}, nil)
		a.Inject(simulator.Fault{Kind: simulator.Tear, Block: 100})
		defer w.Start()()
		f := &scene.Fleet{First: 1}
		c := w.Dial(f.Strict())
		w.Ask(c, scene.Whole(2, 1<<31, 20))
		w.Reaches(c, head)
		w.Clean(c)
		if got := a.Fired(simulator.Tear); got < 1 || got > 2 {
			t.Errorf("the archive was asked for its damaged block %d times", got)
		}
	})
}

// Spec "ship" 9.1.7: the peer strikes the archive and pauses.
func TestStandbyThatDies(t *testing.T) {
	for name, kind := range map[string]simulator.Kind{"with its link": simulator.DropIdle, "unnoticed": simulator.SilenceIdle} {
		t.Run(name, func(t *testing.T) {
			onFleet(t, nil, func(t *testing.T, w *scene.World, f *scene.Fleet) {
				w.Config.Stitching.PredialBlocks = 80
				// The standby is dialed at block 120 and needed 8 s later.
				const pace = 100 * time.Millisecond
				f.Old[0].Inject(simulator.Fault{Kind: simulator.Slow, Block: 100, For: pace})
				stop := w.Start()
				defer stop()
				f.New[0].Inject(simulator.Fault{Kind: kind, For: time.Second, Times: 1})
				c := read(w, f)
				whole(w, f, c, head)
				if got := f.New[0].Fired(kind); got != 1 {
					t.Fatalf("%d standbys died", got)
				}
				if took, _ := c.Between(f.Seams[0]); took > pace {
					t.Errorf("the handoff took %v", took)
				}
				counts(w, 0, "fleet_router_upstream_block_failures_total")
				counts(w, 0, "fleet_router_failovers_total")
			})
		})
	}
}

func TestGapClosesAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *scene.World) {
		w.Stitch()
		w.Archive(2, 200, simulator.Options{}, nil)
		w.Node(simulator.Options{Snapshot: 299}, nil)
		defer w.Start()()
		f := &scene.Fleet{First: 2}
		c := read(w, f)
		began := time.Now()
		closedWith(t, c, 1011, "block 200 unavailable on all upstreams")
		if r := c.Report(); r.Last.Num != 199 || time.Since(began) > time.Second {
			t.Errorf("closed at block %d after %v", r.Last.Num, time.Since(began))
		}
	})
}

// A client that is held is told that somebody is there, and its operator why.
func TestHoldIsVisible(t *testing.T) {
	onFleet(t, nil, func(t *testing.T, w *scene.World, f *scene.Fleet) {
		w.OpenControl()
		w.Config.Stitching.GapWait = time.Hour
		defer w.Start()()
		f.New[0].Kill()
		f.New[1].Kill()
		synctest.Wait()
		c := read(w, f)
		w.Reaches(c, 199)
		before := c.Report().Pings
		time.Sleep(time.Minute)
		// One every ten seconds, looked at once a second.
		if got := c.Report().Pings - before; got < 5 || got > 6 {
			t.Errorf("%d pings in a minute", got)
		}
		counts(w, 1, "fleet_router_sessions", `state="holding"`)
		want := scene.Session{State: "holding", Why: "offline", Upstream: ""}
		list := w.Sessions()
		if len(list) != 1 || list[0].NextBlock == nil || *list[0].NextBlock != 200 {
			t.Fatalf("the sessions are %+v", list)
		}
		if list[0].NextBlock = nil; list[0] != want {
			t.Errorf("the session is %+v", list[0])
		}
		if err := f.New[1].Restart(); err != nil {
			t.Fatal(err)
		}
		w.Reaches(c, 250)
		if list = w.Sessions(); len(list) != 1 || list[0].State != "streaming" || list[0].Upstream == "" {
			t.Errorf("the sessions are %+v", list)
		}
		w.Reaches(c, head)
		before = c.Report().Pings
		time.Sleep(time.Minute)
		if got := c.Report().Pings - before; got > 0 {
			t.Errorf("%d pings to a client that is not held", got)
		}
	})
}

func TestArchivesDownHoldTheClient(t *testing.T) {
	for name, back := range map[string]bool{"for a while": true, "too long": false} {
		t.Run(name, func(t *testing.T) {
			onFleet(t, nil, func(t *testing.T, w *scene.World, f *scene.Fleet) {
				stop := w.Start()
				defer stop()
				f.New[0].Kill()
				f.New[1].Kill()
				synctest.Wait()
				c := read(w, f)
				w.Reaches(c, 199)
				if !back {
					began := time.Now()
					closedWith(t, c, 1011, "block 200 unavailable on all upstreams")
					if took := time.Since(began); took < 30*time.Second || took > 45*time.Second {
						t.Errorf("closed after %v", took)
					}
					counts(w, 1, "fleet_router_hold_closes_total", `why="offline"`)
					return
				}
				time.Sleep(20*time.Second + 123*time.Millisecond)
				if err := f.New[1].Restart(); err != nil {
					t.Fatal(err)
				}
				r := whole(w, f, c, head)
				if r.LongestSilence > 24*time.Second {
					t.Errorf("held for %v; the archive was back after 20 s", r.LongestSilence)
				}
				counts(w, 1, "fleet_router_holds_total", `why="offline"`)
			})
		})
	}
}

func TestBusyArchives(t *testing.T) {
	onFleet(t, nil, func(t *testing.T, w *scene.World, f *scene.Fleet) {
		defer w.Start()()
		for _, a := range f.New {
			a.Busy(true)
		}
		c := read(w, f)
		w.Reaches(c, 199)
		time.Sleep(10 * time.Second)
		f.New[1].Busy(false)
		if r := whole(w, f, c, head); r.LongestSilence > 14*time.Second {
			t.Errorf("held for %v; an archive had room after 10 s", r.LongestSilence)
		}
		counts(w, 0, "fleet_router_upstream_block_failures_total")
	})
}

// Five clients share two places; each place that gets free is used at once.
func TestFullArchives(t *testing.T) {
	inBubble(t, func(t *testing.T, w *scene.World) {
		w.Stitch()
		// One link more than the sessions is the monitor's.
		for range 2 {
			w.Archive(2, 400, simulator.Options{MaxLinks: 2}, func(s *config.Server) { s.MaxSessions = 1 }).
				Inject(simulator.Fault{Kind: simulator.Slow, For: 10 * time.Millisecond})
		}
		w.Node(simulator.Options{Snapshot: 399}, nil)
		w.Config.Stitching.GapWait = time.Hour
		defer w.Start()()
		f := &scene.Fleet{First: 2}
		began := time.Now()
		var clients []*simulator.Client
		for range 5 {
			clients = append(clients, read(w, f))
		}
		for _, c := range clients {
			whole(w, f, c, head)
		}
		// Three turns of 398 blocks at 10 ms each.
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("all clients were served after %v", took)
		}
	})
}

func TestArchiveWithoutABlockLog(t *testing.T) {
	for name, tt := range map[string]struct {
		begin   [2]uint32 // of the block logs of the replicas
		lacking uint64
	}{
		"its replica has one": {[2]uint32{simulator.NoLog, 200}, 0},
		"it has a part":       {[2]uint32{300, 200}, 0},
		"nobody has one":      {[2]uint32{simulator.NoLog, simulator.NoLog}, 200},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *scene.World) {
				w.Stitch()
				w.Archive(2, 200, simulator.Options{}, nil)
				for i, begin := range tt.begin {
					w.Archive(200, 400, simulator.Options{BlockBegin: begin}, func(s *config.Server) { s.Priority = uint32(i) })
				}
				w.Node(simulator.Options{Snapshot: 399}, nil)
				defer w.Start()()
				f := &scene.Fleet{First: 2}
				c := read(w, f)
				r := w.Reaches(c, head)
				if r.Lacking != (simulator.Lacking{Block: tt.lacking}) || r.Blocks != head-1 {
					t.Errorf("%d blocks, parts missing: %+v", r.Blocks, r.Lacking)
				}
				if r.LongestSilence > 0 {
					t.Errorf("the client got nothing for %v", r.LongestSilence)
				}
				counts(w, float64(tt.lacking), "fleet_router_upstream_results_without_block_total")
				counts(w, 0, "fleet_router_upstream_block_failures_total")
			})
		})
	}
}

func TestBelowTheFirstBlock(t *testing.T) {
	inBubble(t, func(t *testing.T, w *scene.World) {
		w.Stitch()
		w.Archive(50, 400, simulator.Options{}, nil)
		w.Node(simulator.Options{Snapshot: 399}, nil)
		defer w.Start()()
		f := &scene.Fleet{First: 50}
		c := w.Dial(f.Strict())
		w.Ask(c, scene.Whole(45, 1<<31, 20))
		r := w.Reaches(c, head)
		w.Clean(c)
		if r.IDless != 5 || r.Blocks != head-49 {
			t.Errorf("%d results without ids and %d blocks", r.IDless, r.Blocks)
		}
	})
}

// An archive of blocks that the live nodes have not, or hold for reversible, is
// gated by their head and LIB.
func TestArchiveAheadOfTheFleet(t *testing.T) {
	for _, irreversible := range []bool{false, true} {
		t.Run(fmt.Sprintf("irreversible only %v", irreversible), func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *scene.World) {
				w.Stitch()
				w.Archive(2, 1000, simulator.Options{}, nil)
				w.Node(simulator.Options{Snapshot: 399}, nil)
				defer w.Start()()
				f := &scene.Fleet{First: 2}
				c := w.Dial(f.Strict())
				q := scene.Whole(2, 1<<31, 20)
				q.Irreversible = irreversible
				w.Ask(c, q)
				lag := uint32(0)
				if irreversible {
					lag = libLag
				}
				for range 3 {
					last := w.Chain.Head().Num - lag
					whole(w, f, c, last)
					time.Sleep(10 * time.Second)
					if r := c.Report(); r.Last.Num != last || r.Head != w.Chain.Head() {
						t.Errorf("block %d with head %d came; the fleet is at %d", r.Last.Num, r.Head.Num, w.Chain.Head().Num)
					}
					w.Chain.Advance(5)
				}
				// It goes on over the same link.
				counts(w, 0, "fleet_router_handoffs_total")
			})
		})
	}
}

func TestArchivesAloneThatGrow(t *testing.T) {
	inBubble(t, func(t *testing.T, w *scene.World) {
		w.Stitch()
		a := w.Archive(2, 200, simulator.Options{}, func(s *config.Server) { s.Range = nil })
		defer w.Start()()
		f := &scene.Fleet{First: 2}
		c := read(w, f)
		whole(w, f, c, 199)
		time.Sleep(time.Minute)
		l := a.Logs()
		for _, r := range []*ship.Range{&l.Trace, &l.State, &l.Finality, &l.Block} {
			r.End = 300
		}
		a.SetLogs(l)
		whole(w, f, c, 299)
	})
}

func TestOtherABIIsExcluded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *scene.World) {
		w.Stitch()
		w.Config.Stitching.ABIMismatch = "exclude"
		other := w.Archive(2, 400, simulator.Options{ABI: simulator.ABIWith("another")}, nil)
		w.Archive(2, 400, simulator.Options{}, func(s *config.Server) { s.Priority = 1 })
		w.Node(simulator.Options{Snapshot: 399}, nil)
		defer w.Start()()
		f := &scene.Fleet{First: 2}
		whole(w, f, read(w, f), head)
		if got := len(other.Requests()); got > 0 {
			t.Errorf("the archive with another ABI was asked %d times", got)
		}
	})
}

func TestForkBehindTheSeam(t *testing.T) {
	inBubble(t, func(t *testing.T, w *scene.World) {
		w.Stitch()
		w.Archive(2, head-libLag+1, simulator.Options{}, nil)
		w.Node(simulator.Options{Snapshot: head - libLag}, nil)
		defer w.Start()()
		f := &scene.Fleet{First: 2}
		c := read(w, f)
		w.Reaches(c, head)
		if err := w.Chain.Fork(head-libLag+1, head+5); err != nil {
			t.Fatal(err)
		}
		r := w.Reaches(c, head+5)
		w.Clean(c)
		if r.Forks != 1 || r.Last != w.Chain.Head() {
			t.Errorf("%d forks, last block %v", r.Forks, r.Last)
		}
	})
}
