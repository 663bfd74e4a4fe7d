package simulator

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/gorilla/websocket"

	"flotilla/gateway/ship"
)

func span(begin, end uint32) ship.Range { return ship.Range{Begin: begin, End: end} }

func TestArchiveRules(t *testing.T) {
	for _, tt := range []struct {
		name string
		opt  Options
		play func(s *scene)
	}{
		{"silent at its end, whatever happens to the chain", Options{First: 10, End: 20}, func(s *scene) {
			s.ask(15, 1000, 1000)
			s.wants("15..19")
			s.chain.Advance(5)
			s.must(s.client.Ack(1))
			s.wants("")
			if _, ended := s.client.End(); ended {
				s.t.Error("the link has ended")
			}
		}},
		{"silent at the end of a request", Options{First: 10, End: 20}, func(s *scene) {
			s.ask(12, 15, 1000)
			s.wants("12..14")
			s.must(s.client.Ack(1))
			s.wants("")
			s.ask(15, 17, 1000)
			s.wants("15 16")
		}},
		{"results without ids below its begin", Options{First: 10, End: 20}, func(s *scene) {
			s.ask(8, 12, 1000)
			s.wants("- - 10 11")
			if r := s.client.Report(); r.IDless != 2 || r.KeepAlives != 0 {
				s.t.Errorf("%d without ids, %d keep-alives", r.IDless, r.KeepAlives)
			}
		}},
		{"no prev_block at its first block", Options{First: 10, End: 20}, func(s *scene) {
			s.ask(10, 12, 1000)
			r := s.next()
			if r[0].HasPrev || !r[1].HasPrev || r[1].Prev != s.chain.Pos(10) {
				s.t.Errorf("prev_block is there: %v, then %v", r[0].HasPrev, r[1].HasPrev)
			}
		}},
		{"prev_block where some log has the block before", Options{First: 10, End: 20, StateBegin: 9}, func(s *scene) {
			s.ask(10, 11, 1000)
			if r := s.next(); !r[0].HasPrev || r[0].Prev != s.chain.Pos(9) {
				s.t.Errorf("prev_block %v, want block 9", r[0].Prev)
			}
		}},
		{"head and LIB of every result are its last block", Options{First: 10, End: 20}, func(s *scene) {
			q := everything(17, 1000, 1000)
			q.Irreversible = true
			s.must(s.client.Ask(q))
			for _, r := range s.next() {
				if want := s.chain.Pos(19); r.Head != want || r.LIB != want {
					s.t.Errorf("block %d has head %d and LIB %d", r.This.Num, r.Head.Num, r.LIB.Num)
				}
			}
		}},
		{"have_positions are ignored", Options{First: 10, End: 20}, func(s *scene) {
			q := everything(15, 17, 1000)
			wrong := s.chain.Pos(12)
			wrong.ID[0]++
			q.Have = []ship.Pos{wrong, s.chain.Pos(13)}
			s.must(s.client.Ask(q))
			s.wants("15 16")
			if got := s.node.Requests(); len(got) != 1 || !slices.Equal(got[0].Have, q.Have) {
				s.t.Errorf("the node remembers %+v", got)
			}
		}},
		{"it may be ahead of the chain", Options{First: 90, End: 111}, func(s *scene) {
			s.ask(99, 1000, 1000)
			s.wants("99..110")
			if got := s.node.Status(); got.Head != s.chain.Pos(110) || got.LIB != got.Head {
				s.t.Errorf("head %v, LIB %v", got.Head, got.LIB)
			}
		}},
		{"it keeps the branch that it was copied from", Options{First: 90, End: 101}, func(s *scene) {
			old := s.chain.Head()
			s.must(s.chain.Fork(95, 105))
			s.ask(100, 1000, 1000)
			if r := s.next(); text(r) != "100" || r[0].This != old {
				s.t.Errorf("got %s, id %v", text(r), r[0].This.ID)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { play(t, ChainOptions{}, tt.opt, tt.play) })
	}
}

func TestArchiveStatus(t *testing.T) {
	for _, tt := range []struct {
		name string
		opt  Options
		logs *Logs
		want [3]ship.Range
		last uint32
	}{
		{"all logs", Options{First: 10, End: 20}, nil, [3]ship.Range{span(10, 20), span(10, 20), span(10, 20)}, 19},
		{"from the first block of the chain", Options{End: 20}, nil, [3]ship.Range{span(2, 20), span(1, 20), span(1, 20)}, 19},
		{"absent logs are 0, 0", Options{First: 10, End: 20, StateBegin: NoLog, FinalityBegin: NoLog}, nil, [3]ship.Range{span(10, 20)}, 19},
		{"a log that begins late", Options{First: 10, End: 20, FinalityBegin: 15}, nil, [3]ship.Range{span(10, 20), span(10, 20), span(15, 20)}, 19},
		{"a log that would begin behind the end", Options{First: 10, End: 20, FinalityBegin: 20}, nil, [3]ship.Range{span(10, 20), span(10, 20)}, 19},
		{"each its own", Options{First: 10, End: 20}, &Logs{Trace: span(3, 9), State: span(2, 12)}, [3]ship.Range{span(3, 9), span(2, 12)}, 11},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, ChainOptions{}, tt.opt, func(s *scene) {
				if tt.logs != nil {
					s.node.SetLogs(*tt.logs)
				}
				for _, v1 := range []bool{false, true} {
					got, err := s.client.Status(context.Background(), v1)
					s.must(err)
					want := ship.Status{V1: v1, Head: s.chain.Pos(tt.last), LIB: s.chain.Pos(tt.last), Trace: tt.want[0],
						ChainState: tt.want[1], HasChainID: true, ChainID: s.chain.ID()}
					if v1 {
						want.Finality = tt.want[2]
					}
					if got != want {
						t.Errorf("got %+v, want %+v", got, want)
					}
				}
				s.client.update(func() { s.client.judge.Report = Report{} })
			})
		})
	}
}

// parts are the payload fields of results, a letter each.
func parts(results []ship.Block) (out []string) {
	for _, r := range results {
		p := ""
		for _, f := range []struct {
			letter string
			field  []byte
		}{{"b", r.Block}, {"t", r.Traces}, {"d", r.Deltas}, {"f", r.Finality}} {
			if f.field != nil {
				p += f.letter
			}
		}
		out = append(out, p)
	}
	return out
}

func TestArchiveParts(t *testing.T) {
	for _, tt := range []struct {
		name string
		opt  Options
		logs *Logs
		v0   bool
		want []string // of blocks 10 to 13
	}{
		{"all", Options{}, nil, false, []string{"btdf", "btdf", "btdf", "btdf"}},
		{"a v0 request", Options{}, nil, true, []string{"btd", "btd", "btd", "btd"}},
		{"no block log", Options{BlockBegin: NoLog}, nil, false, []string{"tdf", "tdf", "tdf", "tdf"}},
		{"a block log that begins late", Options{BlockBegin: 12}, nil, false, []string{"tdf", "tdf", "btdf", "btdf"}},
		{"a block log that ends early", Options{}, &Logs{Trace: span(10, 14), State: span(10, 14), Finality: span(10, 14), Block: span(10, 12)}, false,
			[]string{"btdf", "btdf", "tdf", "tdf"}},
		{"logs of their own", Options{}, &Logs{Trace: span(10, 12), State: span(11, 13), Finality: span(13, 14), Block: span(10, 14)}, false,
			[]string{"bt", "btd", "bd", "bf"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.opt.First, tt.opt.End = 10, 14
			play(t, ChainOptions{}, tt.opt, func(s *scene) {
				if tt.logs != nil {
					s.node.SetLogs(*tt.logs)
				}
				q := everything(10, 14, 100)
				if tt.v0 {
					q.V1, q.FetchFinality = false, false
				}
				s.allow(all)
				s.must(s.client.Ask(q))
				r := s.next()
				if got := parts(r); !slices.Equal(got, tt.want) {
					t.Errorf("got %q, want %q", got, tt.want)
				}
				for _, r := range r {
					if r.V1 == tt.v0 || !r.HasThis {
						t.Errorf("block %d: v1 %v, ids %v", r.This.Num, r.V1, r.HasThis)
					}
				}
			})
		})
	}
}

func TestArchiveThatChanges(t *testing.T) {
	play(t, ChainOptions{}, Options{First: 10, End: 20}, func(s *scene) {
		s.ask(18, 1000, 1000)
		s.wants("18 19")
		grown := Logs{Trace: span(10, 25), State: span(10, 25), Finality: span(10, 25), Block: span(10, 25)}
		s.node.SetLogs(grown)
		s.wants("20..24")
		if got := s.node.Status(); got.Head.Num != 24 || s.node.Logs() != grown {
			t.Errorf("head %d, logs %+v", got.Head.Num, s.node.Logs())
		}
		// A request above the end stays where it is, unlike on a live node.
		s.redial()
		s.allow(all)
		s.ask(30, 1000, 1000)
		s.wants("")
		s.node.SetLogs(Logs{Trace: span(10, 32)})
		s.wants("30 31")
		// Less than before.
		s.redial()
		s.allow(all)
		s.node.SetLogs(Logs{Trace: span(12, 15)})
		s.ask(11, 1000, 1000)
		s.wants("- 12..14")
	})
}

func TestSessionLimit(t *testing.T) {
	play(t, ChainOptions{}, Options{First: 10, End: 20, MaxLinks: 2}, func(s *scene) {
		second := s.dial()
		for range 2 {
			if _, err := s.tryDial(context.Background()); !errors.Is(err, websocket.ErrBadHandshake) {
				t.Errorf("a third link: %v", err)
			}
		}
		if got := s.node.Counters(); got.Busy != 2 || got.Links != 2 {
			t.Errorf("%+v", got)
		}
		second.Close()
		synctest.Wait()
		s.redial()
		s.dial()
	})
}

func TestLiveNodesThatBeginLate(t *testing.T) {
	for _, tt := range []struct {
		name      string
		opt       Options
		status    [3]ship.Range
		start     uint32
		want      string
		wantParts []string
		prev      bool // of the first block with an id
	}{
		{"from a snapshot at 50", Options{Snapshot: 50}, [3]ship.Range{span(51, 101), span(50, 101), span(51, 101)},
			49, "- 50 51", []string{"", "d", "btdf"}, false},
		{"the seam behind an archive that ends at 51", Options{Snapshot: 50}, [3]ship.Range{span(51, 101), span(50, 101), span(51, 101)},
			51, "51 52 53", []string{"btdf", "btdf", "btdf"}, true},
		{"a trace log only", Options{TraceBegin: 50, StateBegin: NoLog, FinalityBegin: NoLog, BlockBegin: NoLog}, [3]ship.Range{span(50, 101)},
			48, "- - 50", []string{"", "", "t"}, false},
		{"logs late, block log whole", Options{TraceBegin: 50, StateBegin: 50, FinalityBegin: 50}, [3]ship.Range{span(50, 101), span(50, 101), span(50, 101)},
			48, "48 49 50", []string{"b", "b", "btdf"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, ChainOptions{}, tt.opt, func(s *scene) {
				if st := s.node.Status(); [3]ship.Range{st.Trace, st.ChainState, st.Finality} != tt.status {
					t.Errorf("status %+v", st)
				}
				s.allow(all)
				s.ask(tt.start, tt.start+3, 100)
				r := s.next()
				if text(r) != tt.want || !slices.Equal(parts(r), tt.wantParts) {
					t.Errorf("got %s with %q, want %s with %q", text(r), parts(r), tt.want, tt.wantParts)
				}
				first := slices.IndexFunc(r, func(r ship.Block) bool { return r.HasThis })
				if r[first].HasPrev != tt.prev {
					t.Errorf("the first block has prev_block: %v", r[first].HasPrev)
				}
			})
		})
	}
}

func TestFinalityLogThatAppears(t *testing.T) {
	play(t, ChainOptions{}, Options{FinalityBegin: NoLog}, func(s *scene) {
		l := s.node.Logs()
		if !s.node.Status().Finality.Empty() {
			t.Fatal("there is a finality log at the start")
		}
		l.Finality = span(102, ToHead)
		s.node.SetLogs(l)
		if got := s.node.Status().Finality; got != (ship.Range{}) {
			t.Errorf("finality %+v before its first block", got)
		}
		s.allow(ship.Parts{Finality: true})
		s.ask(100, 103, 100)
		s.chain.Advance(2)
		if got := parts(s.next()); !slices.Equal(got, []string{"btd", "btd", "btdf"}) {
			t.Errorf("parts %q", got)
		}
		if got := s.node.Status().Finality; got != span(102, 103) {
			t.Errorf("finality %+v", got)
		}
	})
}

func TestAnotherABI(t *testing.T) {
	play(t, ChainOptions{}, Options{ABI: ABIWith("one_more")}, func(s *scene) {
		plain := s.start(Options{})
		mine, other := s.client.ABI(), ship.Fingerprint(plain.ABI())
		if !mine.Compatible() || ship.Fingerprint(s.node.ABI()) == other {
			t.Errorf("compatible %v, fingerprints %s and %s", mine.Compatible(), ship.Fingerprint(s.node.ABI()), other)
		}
		s.node.SetABI(plain.ABI())
		s.redial()
		if got := s.client.ABI(); got.Fingerprint != other {
			t.Error("a new link has the old ABI")
		}
	})
}

func TestClosePort(t *testing.T) {
	play(t, ChainOptions{}, Options{First: 10, End: 20}, func(s *scene) {
		s.ask(10, 1000, 2)
		s.wants("10 11")
		s.node.ClosePort()
		if _, err := s.tryDial(context.Background()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a dial to a closed port: %v", err)
		}
		s.must(s.client.Ack(1))
		s.wants("12")
		s.must(s.node.Restart())
		s.dial()
	})
}

func TestDropSomeLinks(t *testing.T) {
	for _, tt := range []struct {
		name string
		drop func(*Node)
		left [3]bool // of a reader, a monitor and a standby
	}{
		{"readers", (*Node).DropReaders, [3]bool{false, true, true}},
		{"standbys", (*Node).DropStandbys, [3]bool{true, true, false}},
		{"all", (*Node).DropLinks, [3]bool{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, ChainOptions{}, Options{}, func(s *scene) {
				s.ask(10, 1000, 2)
				monitor, standby := s.dial(), s.dial()
				_, err := monitor.Status(context.Background(), true)
				s.must(err)
				synctest.Wait()
				if open, streaming := s.node.Links(); open != 3 || streaming != 1 || s.node.Standbys() != 1 {
					t.Fatalf("%d open, %d streaming, %d standing by", open, streaming, s.node.Standbys())
				}
				tt.drop(s.node)
				synctest.Wait()
				for i, c := range []*Client{s.client, monitor, standby} {
					if _, ended := c.End(); ended == tt.left[i] {
						t.Errorf("link %d has ended: %v", i, ended)
					}
				}
			})
		})
	}
}

func TestClosesAreCounted(t *testing.T) {
	play(t, ChainOptions{}, Options{First: 10, End: 20}, func(s *scene) {
		for _, code := range []int{websocket.CloseNormalClosure, websocket.CloseGoingAway} {
			s.must(s.client.ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(code, ""), soon()))
			s.ended(code)
			s.redial()
		}
		s.client.Close()
		synctest.Wait()
		if got := s.node.Counters().Closes; got != 1 {
			t.Errorf("%d closes with 1000, want 1", got)
		}
	})
}
