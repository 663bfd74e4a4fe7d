package simulator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/ship"
)

func soon() time.Time { return time.Now().Add(time.Second) }

// TestContractViolations plays each way in which an archive breaks what it
// promises, once, and then checks that the client takes offence and that the
// next link is served as it should be.
func TestContractViolations(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault Fault
		found string // in what the client says of it
		play  func(s *scene)
	}{
		{"idless", Fault{Kind: NoIDs, Block: 12}, "results without ids: 1", func(s *scene) {
			s.ask(10, 15, 100)
			r := s.next()
			if text(r) != "10 11 - 13 14" || r[2].Traces != nil || r[2].Head != s.chain.Pos(19) {
				s.t.Errorf("got %s; %+v", text(r), r[2])
			}
		}},
		{"idless: a keep-alive in the middle", Fault{Kind: HeadOnly, Block: 12}, "results without ids: 1", func(s *scene) {
			s.ask(10, 15, 4)
			s.wants("10 11 - 12")
		}},
		{"idless: a keep-alive that takes the last credit", Fault{Kind: HeadOnly, Block: 12}, "results without ids: 1", func(s *scene) {
			s.ask(10, 15, 3)
			s.wants("10 11 -")
			s.must(s.client.Ack(1))
			s.wants("12")
		}},
		{"idless: a keep-alive at the end of the request", Fault{Kind: HeadOnly, Block: 15}, "", func(s *scene) {
			s.ask(13, 15, 100)
			s.wants("13 14 -")
			if r := s.client.Report(); r.KeepAlives != 1 {
				s.t.Errorf("%d keep-alives", r.KeepAlives)
			}
		}},
		{"idless: a keep-alive at the end of the range", Fault{Kind: HeadOnly, Block: 20}, "", func(s *scene) {
			s.ask(18, 1000, 100)
			s.wants("18 19 -")
		}},
		{"gap", Fault{Kind: Jump, Block: 12, Count: 2}, "gaps: 1", func(s *scene) {
			s.ask(10, 16, 100)
			s.wants("10 11 14 15")
		}},
		{"rewind", Fault{Kind: Replay, Block: 13, Count: 2}, "sent twice: 2", func(s *scene) {
			s.ask(10, 15, 100)
			s.wants("10..12 11..14")
		}},
		{"missing block", Fault{Kind: Omit, Block: 12, Field: FieldBlock}, "without the block: 1", lacks("tdf")},
		{"missing traces", Fault{Kind: Omit, Block: 12, Field: FieldTraces}, "without traces: 1", lacks("bdf")},
		{"missing deltas", Fault{Kind: Omit, Block: 12, Field: FieldDeltas}, "without deltas: 1", lacks("btf")},
		{"missing finality", Fault{Kind: Omit, Block: 12, Field: FieldFinality}, "without finality data: 1", lacks("btd")},
		{"payload that does not decode", Fault{Kind: Truncate, Block: 12}, "unknown messages: 1", func(s *scene) {
			s.ask(10, 15, 100)
			s.wants("10 11 13 14")
			if r := s.client.Report(); r.Unknown != 1 {
				s.t.Errorf("%d messages that do not decode", r.Unknown)
			}
		}},
		{"credit", Fault{Kind: Overrun, Block: 12}, "beyond the credit: 1", func(s *scene) {
			s.ask(10, 15, 2)
			s.wants("10 11 12")
			s.must(s.client.Ack(1))
			s.wants("13")
			if r := s.client.Report(); r.Overruns != 1 {
				s.t.Errorf("%d results beyond the credit", r.Overruns)
			}
		}},
		{"credit: from the first block on", Fault{Kind: Overrun}, "beyond the credit: 1", func(s *scene) {
			s.ask(10, 15, 0)
			s.wants("10")
		}},
		{"variant: another version", Fault{Kind: OtherVersion, Block: 12}, "of another version: 1", func(s *scene) {
			s.ask(10, 15, 100)
			for _, r := range s.next() {
				if r.V1 != (r.This.Num != 12) {
					s.t.Errorf("block %d is v1: %v", r.This.Num, r.V1)
				}
			}
		}},
		{"variant: v1 for v0", Fault{Kind: OtherVersion, Block: 12}, "of another version: 1", func(s *scene) {
			q := everything(12, 13, 1)
			q.V1, q.FetchFinality = false, false
			s.must(s.client.Ask(q))
			if r := s.next(); len(r) != 1 || !r[0].V1 || r[0].Traces == nil {
				s.t.Errorf("got %+v", r)
			}
		}},
		{"variant: a status", Fault{Kind: StrayStatus, Block: 12}, "not asked for: 1", func(s *scene) {
			s.ask(10, 15, 100)
			s.wants("10..14")
			s.client.mu.Lock()
			defer s.client.mu.Unlock()
			if got := s.client.statuses; len(got) != 1 || got[0].Head.Num != 19 {
				s.t.Errorf("statuses %+v", got)
			}
		}},
		{"variant: a text", Fault{Kind: StrayText, Block: 12}, "unknown messages: 1", func(s *scene) {
			s.ask(10, 15, 100)
			s.wants("10..14")
			if r := s.client.Report(); r.Unknown != 1 {
				s.t.Errorf("%d other messages", r.Unknown)
			}
		}},
		{"variant: a block after the end", Fault{Kind: Overshoot, Block: 13}, "beyond the end: 1", func(s *scene) {
			s.ask(11, 13, 100)
			s.wants("11..13")
		}},
		{"discontinuity at the first block", Fault{Kind: BreakPrev, Block: 10}, "do not link to the one before: 1", func(s *scene) {
			// As if another server had sent the client block 9 before.
			s.client.update(func() { s.client.judge.block(&ship.BlockHeader{HasThis: true, This: s.chain.Pos(9)}, time.Now()) })
			s.ask(10, 12, 100)
			r := s.next()
			if text(r) != "10 11" || !r[0].HasPrev || r[0].Prev.Num != 9 || r[0].Prev == s.chain.Pos(9) || r[1].Prev != s.chain.Pos(10) {
				s.t.Errorf("got %s with prev_block %v, then %v", text(r), r[0].Prev, r[1].Prev)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, ChainOptions{}, Options{First: 10, End: 20}, func(s *scene) {
				tt.fault.Times = 1
				s.node.Inject(tt.fault)
				s.client.update(func() { s.client.judge.first = 10 })
				tt.play(s)
				if got := s.node.Fired(tt.fault.Kind); got != 1 {
					t.Errorf("the fault happened %d times", got)
				}
				err := s.client.Report().Err()
				if (err == nil) != (tt.found == "") || err != nil && !strings.Contains(err.Error(), tt.found) {
					t.Errorf("the client says: %v; it should name %q", err, tt.found)
				}
				s.redial()
				s.ask(10, 1000, 100)
				s.wants("10..19")
			})
		})
	}
}

func lacks(want string) func(s *scene) {
	return func(s *scene) {
		s.ask(10, 15, 100)
		for _, r := range s.next() {
			p := "btdf"
			if r.This.Num == 12 {
				p = want
			}
			if got := parts([]ship.Block{r})[0]; got != p {
				s.t.Errorf("block %d has %q, want %q", r.This.Num, got, p)
			}
		}
	}
}

func TestFaultsForEver(t *testing.T) {
	play(t, ChainOptions{}, Options{First: 10, End: 20}, func(s *scene) {
		s.node.Inject(Fault{Kind: Tear, Block: 12})
		for range 3 {
			s.ask(10, 15, 100)
			s.ended(0)
			s.wants("10 11")
			s.redial()
		}
		if got := s.node.Fired(Tear); got != 3 {
			t.Errorf("%d times", got)
		}
	})
}

func TestSeveralFaultsAtOneBlock(t *testing.T) {
	play(t, ChainOptions{}, Options{First: 10, End: 20}, func(s *scene) {
		s.node.Inject(Fault{Kind: Omit, Field: FieldTraces, Block: 11, Times: 1})
		s.node.Inject(Fault{Kind: Stall, For: time.Minute, Block: 11, Times: 1})
		s.node.Inject(Fault{Kind: BreakPrev, Block: 11, Times: 1})
		s.ask(10, 12, 100)
		s.wants("10")
		time.Sleep(time.Minute)
		if r := s.next(); len(r) != 1 || parts(r)[0] != "bdf" || r[0].Prev == s.chain.Pos(10) {
			t.Errorf("got %s with %q", text(r), parts(r))
		}
		s.report(Report{BrokenLinks: 1, Lacking: Lacking{Traces: 1}})
	})
}

// A fault also strikes a link that waits at the block already, and those that
// struck there do not strike again.
func TestInjectedWhereTheLinkWaits(t *testing.T) {
	play(t, ChainOptions{}, Options{First: 10, End: 20}, func(s *scene) {
		s.node.Inject(Fault{Kind: HeadOnly, Block: 20})
		s.ask(19, 1000, 100)
		s.wants("19 -")
		s.node.Inject(Fault{Kind: HeadOnly, Block: 20, Times: 1})
		s.wants("-")
	})
}

func TestStallAtABlock(t *testing.T) {
	for _, tt := range []struct {
		name  string
		pause time.Duration
		ends  bool
	}{{"for a while", 10 * time.Second, true}, {"for ever", 0, false}} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, ChainOptions{}, Options{First: 10, End: 20}, func(s *scene) {
				s.node.Inject(Fault{Kind: Stall, Block: 12, Times: 1, For: tt.pause})
				s.ask(10, 15, 100)
				time.Sleep(10*time.Second - 1)
				s.must(s.client.Ping("x"))
				_, err := s.client.Status(context.Background(), true)
				s.must(err)
				s.wants("10 11")
				if got := s.client.Report().Pongs; got != 1 {
					t.Errorf("%d pongs", got)
				}
				time.Sleep(time.Hour)
				if tt.ends {
					s.wants("12..14")
				} else {
					s.wants("")
				}
				s.redial()
				s.ask(12, 15, 100)
				s.wants("12..14")
			})
		})
	}
}

func TestSlow(t *testing.T) {
	play(t, ChainOptions{}, Options{First: 10, End: 20}, func(s *scene) {
		s.node.Inject(Fault{Kind: Slow, Block: 12, Times: 1, For: time.Second})
		s.ask(10, 20, 100)
		for _, want := range []string{"10 11", "12", "13", "14"} {
			s.wants(want)
			time.Sleep(time.Second)
		}
	})
}

func TestSilentLink(t *testing.T) {
	play(t, ChainOptions{}, Options{First: 10, End: 20}, func(s *scene) {
		s.node.Inject(Fault{Kind: Silence, Block: 12, Times: 1})
		s.ask(10, 20, 100)
		s.wants("10 11")
		s.must(s.client.Ping("x"))
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if _, err := s.client.Status(ctx, true); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("status on a silent link: %v", err)
		}
		s.wants("")
		if got := s.client.Report().Pongs; got != 0 {
			t.Errorf("%d pongs", got)
		}
		s.redial() // all other links are served
		s.ask(12, 13, 100)
		s.wants("12")
	})
}

func TestFreezeAtABlock(t *testing.T) {
	play(t, ChainOptions{}, Options{First: 10, End: 20}, func(s *scene) {
		other := s.dial()
		s.node.Inject(Fault{Kind: FreezeNode, Block: 12, Times: 1})
		s.ask(10, 15, 100)
		s.wants("10 11")
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if _, err := other.Status(ctx, true); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("status of a frozen node: %v", err)
		}
		s.node.Thaw()
		s.wants("12..14")
	})
}

func TestKillAtABlock(t *testing.T) {
	play(t, ChainOptions{}, Options{First: 10, End: 20}, func(s *scene) {
		other := s.dial()
		s.node.Inject(Fault{Kind: KillNode, Block: 12, Times: 1})
		s.ask(10, 15, 100)
		s.ended(0)
		s.wants("10 11")
		<-other.Done()
		if _, err := s.tryDial(context.Background()); err == nil {
			t.Error("a dead node takes a link")
		}
		s.must(s.node.Restart())
		s.redial()
		s.ask(12, 13, 100)
		s.wants("12")
	})
}

func TestFaultsOfTheHandshake(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault Fault
		takes time.Duration
		fails bool
	}{
		{"refused", Fault{Kind: Refuse}, 0, true},
		{"503", Fault{Kind: Busy}, 0, true},
		{"late ABI", Fault{Kind: LateABI, For: 3 * time.Second}, 3 * time.Second, false},
		{"no ABI", Fault{Kind: LateABI}, time.Minute, true},
		{"an ABI that is none", Fault{Kind: BadABI}, 0, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, ChainOptions{}, Options{First: 10, End: 20}, func(s *scene) {
				tt.fault.Times = 2
				s.node.Inject(tt.fault)
				for range 2 {
					began := time.Now()
					ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
					_, err := s.tryDial(ctx)
					cancel()
					if took := time.Since(began); (err != nil) != tt.fails || took != tt.takes {
						t.Errorf("took %v: %v", took, err)
					}
				}
				if got := s.node.Fired(tt.fault.Kind); got != 2 {
					t.Errorf("the fault happened %d times", got)
				}
				began := time.Now()
				s.redial()
				s.ask(10, 12, 100)
				s.wants("10 11")
				if took := time.Since(began); took != 0 {
					t.Errorf("the third dial took %v", took)
				}
			})
		})
	}
}

func TestStandbyThatDies(t *testing.T) {
	for _, tt := range []struct {
		name  string
		kind  Kind
		drops bool
	}{{"with its link", DropIdle, true}, {"unnoticed", SilenceIdle, false}} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, ChainOptions{}, Options{First: 10, End: 20}, func(s *scene) {
				s.node.Inject(Fault{Kind: tt.kind, Times: 3, For: 5 * time.Second})
				standby, reader, monitor := s.dial(), s.dial(), s.dial()
				s.must(reader.Ask(everything(10, 12, 100)))
				_, err := monitor.Status(context.Background(), true)
				s.must(err)
				time.Sleep(5*time.Second - 1)
				synctest.Wait()
				if _, ended := standby.End(); ended {
					t.Error("the standby ended early")
				}
				time.Sleep(time.Second)
				synctest.Wait()
				if _, ended := standby.End(); ended != tt.drops {
					t.Errorf("the standby has ended: %v", ended)
				}
				if !tt.drops {
					s.must(standby.Ping("x"))
					s.must(standby.Ask(everything(10, 12, 100)))
				}
				// Those that had asked for something before are as they were.
				s.must(reader.Ask(everything(12, 14, 100)))
				_, err = monitor.Status(context.Background(), true)
				s.must(err)
				synctest.Wait()
				if got := reader.Report().Blocks; got != 4 {
					t.Errorf("the reader has %d blocks", got)
				}
				if r := standby.Report(); r.Pongs != 0 || r.Blocks != 0 {
					t.Errorf("the dead standby sent %d pongs and %d blocks", r.Pongs, r.Blocks)
				}
			})
		})
	}
}

// An archive of another chain that claims to be of this one.
func TestArchiveOfAnotherChain(t *testing.T) {
	play(t, ChainOptions{}, Options{First: 10, End: 20}, func(s *scene) {
		other := NewChain(ChainOptions{Seed: "other", Head: 100})
		n, err := Start(other, Options{First: 20, End: 30, Address: "foreign:0", Listen: s.net.Listen})
		s.must(err)
		s.t.Cleanup(n.Close)
		n.SetChainID(s.chain.ID())
		if got := n.Status(); got.ChainID != s.chain.ID() || got.Head == s.chain.Pos(29) {
			t.Errorf("status %+v", got)
		}
		c, err := Dial(context.Background(), n.URL(), ClientOptions{Dial: s.net.DialContext, Keep: true})
		s.must(err)
		s.t.Cleanup(c.Close)
		s.must(c.Ask(everything(21, 22, 1)))
		synctest.Wait()
		if r := c.Results(); len(r) != 1 || r[0].Prev == s.chain.Pos(20) || r[0].Prev != other.Pos(20) {
			t.Errorf("got %+v", r)
		}
	})
}
