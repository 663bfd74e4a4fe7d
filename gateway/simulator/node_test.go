package simulator

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"flotilla/gateway/ship"
)

func TestNodeRules(t *testing.T) {
	for _, tt := range []struct {
		name string
		opt  Options
		play func(s *scene)
	}{
		{"range", Options{}, func(s *scene) {
			s.ask(5, 10, 1000)
			s.wants("5..9")
		}},
		{"end at or below start is silence", Options{}, func(s *scene) {
			s.ask(10, 10, 1000)
			s.wants("")
			s.ask(10, 0, 1000)
			s.wants("")
		}},
		{"credit", Options{}, func(s *scene) {
			s.ask(5, 1000, 3)
			s.wants("5..7")
			s.must(s.client.Ack(0))
			s.wants("")
			s.must(s.client.Ack(2))
			s.wants("8 9")
		}},
		{"credit 0 waits for an ack", Options{}, func(s *scene) {
			s.ask(5, 1000, 0)
			s.wants("")
			s.must(s.client.Ack(1))
			s.wants("5")
		}},
		{"credit wraps at 32 bits", Options{}, func(s *scene) {
			s.ask(200, 1000, 0xffffffff)
			s.must(s.client.Ack(4))
			s.wants("")
			s.chain.Advance(200)
			s.wants("101..103")
		}},
		{"ack before a request is lost", Options{}, func(s *scene) {
			s.must(s.client.Ack(10))
			s.ask(5, 1000, 1)
			s.wants("5")
		}},
		{"acks after the end do not count for the next request", Options{}, func(s *scene) {
			s.ask(5, 7, 10)
			s.wants("5 6")
			s.must(s.client.Ack(10))
			s.ask(7, 100, 2)
			s.wants("7 8")
		}},
		{"a new request replaces the old one", Options{}, func(s *scene) {
			s.ask(5, 1000, 2)
			s.wants("5 6")
			s.ask(50, 60, 3)
			s.wants("50..52")
		}},
		{"follows the head", Options{}, func(s *scene) {
			s.ask(99, 1000, 1000)
			s.wants("99 100")
			s.chain.Advance(3)
			s.wants("101..103")
		}},
		{"a start above the head is pulled back to the next block", Options{}, func(s *scene) {
			s.ask(106, 1000, 1000)
			s.wants("")
			s.chain.Advance(1)
			s.wants("101")
		}},
		{"irreversible only", Options{}, func(s *scene) {
			q := everything(79, 1000, 1000)
			q.Irreversible = true
			s.must(s.client.Ask(q))
			s.wants("79 80")
			s.chain.Advance(3)
			s.wants("81..83")
			s.must(s.chain.Fork(95, 105))
			s.wants("84 85")
		}},
		{"fork", Options{}, func(s *scene) {
			s.ask(98, 1000, 1000)
			s.wants("98..100")
			s.must(s.chain.Fork(96, 101))
			s.wants("96..101")
			if r := s.client.Report(); r.Forks != 1 || r.Last != s.chain.Head() {
				s.t.Errorf("%d forks, last block %v", r.Forks, r.Last)
			}
		}},
		{"fork after the end was reached", Options{}, func(s *scene) {
			s.ask(98, 101, 1000)
			s.wants("98..100")
			s.must(s.chain.Fork(100, 103))
			s.wants("100")
		}},
		{"fork to a shorter branch", Options{}, func(s *scene) {
			s.ask(100, 1000, 1000)
			s.wants("100")
			s.must(s.chain.Fork(90, 95))
			s.wants("90..95")
			s.report(Report{Forks: 1, HeadBacks: 6})
		}},
		{"fork without credit", Options{}, func(s *scene) {
			s.ask(99, 1000, 2)
			s.wants("99 100")
			s.must(s.chain.Fork(97, 101))
			s.wants("")
			s.must(s.client.Ack(3))
			s.wants("97..99")
		}},
		{"no ids below the first block", Options{First: 8}, func(s *scene) {
			s.ask(6, 11, 1000)
			r := s.next()
			if got := text(r); got != "- - 8 9 10" {
				s.t.Fatalf("got %s", got)
			}
			if r[2].HasPrev || !r[3].HasPrev {
				s.t.Error("prev_block should be there from the second block on")
			}
			if c := s.client.Report(); c.IDless != 2 || c.KeepAlives != 0 {
				s.t.Errorf("%d id-less, %d keep-alives", c.IDless, c.KeepAlives)
			}
		}},
		{"start is raised", Options{First: 8, RaiseStart: true}, func(s *scene) {
			s.ask(6, 10, 1000)
			s.wants("8 9")
			s.report(Report{Gaps: 1, Missing: 2})
		}},
		{"keep-alives", Options{KeepAlives: true, V0Only: true}, func(s *scene) {
			q := everything(99, 102, 10)
			q.V1, q.FetchFinality = false, false
			s.must(s.client.Ask(q))
			s.wants("99 100")
			s.chain.Advance(1)
			s.wants("101")
			s.chain.Advance(1)
			s.wants("-")
			s.must(s.client.Ack(1))
			s.wants("-")
			s.must(s.client.Ask(ship.BlocksRequest{Start: 500, End: 600, MaxInFlight: 1}))
			s.wants("-")
			s.chain.Advance(1)
			s.wants("")
		}},
		{"no keep-alives otherwise", Options{}, func(s *scene) {
			s.ask(99, 101, 10)
			s.wants("99 100")
			s.chain.Advance(1)
			s.must(s.client.Ack(1))
			s.wants("")
		}},
		{"archive", Options{First: 10, End: 20}, func(s *scene) {
			s.ask(15, 1000, 1000)
			s.wants("15..19")
			s.chain.Advance(5)
			s.wants("")
			st := s.node.Status()
			if st.Head.Num != 19 || st.LIB.Num != 19 || st.Trace != (ship.Range{Begin: 10, End: 20}) {
				s.t.Errorf("status %+v", st)
			}
		}},
		{"whole results", Options{Whole: true}, func(s *scene) {
			s.ask(5, 10, 1000)
			s.wants("5..9")
		}},
		{"one queue", Options{OneQueue: true}, func(s *scene) {
			s.ask(5, 10, 1000)
			s.wants("5..9")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) { play(t, ChainOptions{}, tt.opt, tt.play) })
	}
}

func TestPositions(t *testing.T) {
	for _, tt := range []struct {
		name  string
		wrong []uint32
		right []uint32
		want  string
	}{
		{"none", nil, nil, "90..92"},
		{"right ones change nothing", nil, []uint32{85, 89}, "90..92"},
		{"the lowest wrong one is the start", []uint32{88, 87}, []uint32{86}, "87..89"},
		{"at or above the start is ignored", []uint32{90, 95}, nil, "90..92"},
		{"a number that the node lacks is wrong", []uint32{3}, nil, "- - 5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, ChainOptions{}, Options{First: 5}, func(s *scene) {
				q := everything(90, 1000, 3)
				for _, n := range tt.right {
					q.Have = append(q.Have, s.chain.Pos(n))
				}
				for _, n := range tt.wrong {
					p := s.chain.Pos(n)
					p.ID[31]++
					q.Have = append(q.Have, p)
				}
				s.must(s.client.Ask(q))
				if got := text(s.next()); got != expand(tt.want) {
					t.Errorf("got [%s], want [%s]", got, expand(tt.want))
				}
				s.client.update(func() { s.client.judge.Report = Report{} })
			})
		})
	}
}

func TestFields(t *testing.T) {
	opt := Options{First: 10, TraceBegin: 12, StateBegin: 11, FinalityBegin: 13}
	for _, tt := range []struct {
		name                            string
		block                           uint32
		v1                              bool
		block0, traces, deltas, finalty bool
	}{
		{"the block alone", 10, true, true, false, false, false},
		{"state begins", 11, true, true, false, true, false},
		{"traces begin", 12, true, true, true, true, false},
		{"finality begins", 13, true, true, true, true, true},
		{"v0 has no finality", 13, false, true, true, true, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, ChainOptions{}, opt, func(s *scene) {
				q := everything(tt.block, tt.block+1, 1)
				q.V1, q.FetchFinality = tt.v1, tt.v1
				s.allow(all)
				s.must(s.client.Ask(q))
				r := s.next()[0]
				if r.V1 != tt.v1 {
					t.Errorf("the result is v1: %v", r.V1)
				}
				for name, f := range map[string]struct {
					got  []byte
					want bool
					size int
				}{
					"block": {r.Block, tt.block0, 40}, "traces": {r.Traces, tt.traces, 300},
					"deltas": {r.Deltas, tt.deltas, 3}, "finality": {r.Finality, tt.finalty, 9},
				} {
					if (f.got != nil) != f.want || f.want && len(f.got) != f.size {
						t.Errorf("%s: %d bytes, present %v, want %v", name, len(f.got), f.got != nil, f.want)
					}
				}
			})
		})
	}
}

func TestFieldsNotAsked(t *testing.T) {
	play(t, ChainOptions{}, Options{}, func(s *scene) {
		s.must(s.client.Ask(ship.BlocksRequest{V1: true, Start: 50, End: 51, MaxInFlight: 1}))
		r := s.next()[0]
		if r.Block != nil || r.Traces != nil || r.Deltas != nil || r.Finality != nil {
			t.Errorf("fields that were not asked for are present: %+v", r)
		}
		if r.This != s.chain.Pos(50) || r.Prev != s.chain.Pos(49) || r.Head != s.chain.Head() || r.LIB != s.chain.LIB() {
			t.Errorf("positions are wrong: %+v", r.BlockHeader)
		}
	})
}

func TestStatus(t *testing.T) {
	for _, tt := range []struct {
		name    string
		opt     Options
		v1      bool
		chainID bool
		want    [3]ship.Range
	}{
		{"v0", Options{}, false, true, [3]ship.Range{{Begin: 2, End: 101}, {Begin: 1, End: 101}, {}}},
		{"v1", Options{}, true, true, [3]ship.Range{{Begin: 2, End: 101}, {Begin: 1, End: 101}, {Begin: 1, End: 101}}},
		{"no chain id", Options{NoChainID: true, V0Only: true}, false, false, [3]ship.Range{{Begin: 2, End: 101}, {Begin: 1, End: 101}, {}}},
		{"absent logs", Options{TraceBegin: NoLog, FinalityBegin: NoLog}, true, true, [3]ship.Range{{}, {Begin: 1, End: 101}, {}}},
		{"snapshot", Options{First: 50, TraceBegin: 51}, false, true, [3]ship.Range{{Begin: 51, End: 101}, {Begin: 50, End: 101}, {}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, ChainOptions{}, tt.opt, func(s *scene) {
				got, err := s.client.Status(context.Background(), tt.v1)
				s.must(err)
				want := ship.Status{V1: tt.v1, Head: s.chain.Head(), LIB: s.chain.LIB(),
					Trace: tt.want[0], ChainState: tt.want[1], Finality: tt.want[2], HasChainID: tt.chainID}
				if tt.chainID {
					want.ChainID = s.chain.ID()
				}
				if got != want {
					t.Errorf("got %+v, want %+v", got, want)
				}
			})
		})
	}
}

func TestABI(t *testing.T) {
	for _, tt := range []struct {
		name string
		opt  Options
		v1   bool
	}{{"Spring", Options{}, true}, {"older", Options{V0Only: true}, false}} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, ChainOptions{}, tt.opt, func(s *scene) {
				abi := s.client.ABI()
				if !abi.Compatible() || abi.Knows("get_status_request_v1") != tt.v1 || abi.Knows("get_blocks_request_v1") != tt.v1 {
					t.Errorf("requests %v, results %v", abi.Requests, abi.Results)
				}
			})
		})
	}
}

func TestRefusedRequests(t *testing.T) {
	v1 := everything(5, 10, 1)
	for _, tt := range []struct {
		name string
		opt  Options
		msg  []byte
	}{
		{"unknown variant", Options{}, []byte{5}},
		{"empty", Options{}, nil},
		{"cut off", Options{}, []byte{1, 2, 3}},
		{"v1 status to an older node", Options{V0Only: true}, []byte{ship.StatusRequestV1}},
		{"v1 blocks to an older node", Options{V0Only: true}, ship.AppendRequest(nil, &v1)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, ChainOptions{}, tt.opt, func(s *scene) {
				s.must(s.client.Send(tt.msg))
				s.ended(0)
			})
		})
	}
}

func TestStatusDuringStream(t *testing.T) {
	play(t, ChainOptions{Head: 20000}, Options{}, func(s *scene) {
		s.ask(2, 20001, 100000)
		_, err := s.client.Status(context.Background(), true)
		s.must(err)
		if got := s.client.Report().Blocks; got == 19999 {
			t.Error("the status came after all blocks")
		}
		s.must(s.client.Wait(context.Background(), func(r Report) bool { return r.Blocks == 19999 }))
	})
}

func TestPing(t *testing.T) {
	play(t, ChainOptions{}, Options{}, func(s *scene) {
		s.must(s.client.Ping("a"))
		s.must(s.client.Ping("b"))
		synctest.Wait()
		if got := s.client.Report().Pongs; got != 2 {
			t.Errorf("%d pongs, want 2", got)
		}
	})
}

func TestClientCloses(t *testing.T) {
	for name, tt := range map[string]struct {
		body []byte
		want int
	}{
		"with a code": {websocket.FormatCloseMessage(4001, "reason"), 4001},
		"without":     {nil, websocket.CloseNormalClosure},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, ChainOptions{}, Options{}, func(s *scene) {
				s.must(s.client.ws.WriteControl(websocket.CloseMessage, tt.body, time.Now().Add(time.Second)))
				s.ended(tt.want)
				if e, _ := s.client.End(); e.Reason != "" {
					t.Errorf("reason %q", e.Reason)
				}
			})
		})
	}
}

func TestRequestWithTheUpgrade(t *testing.T) {
	play(t, ChainOptions{}, Options{}, func(s *scene) {
		c, err := s.net.DialContext(context.Background(), "", s.node.Addr())
		s.must(err)
		defer c.Close()
		// A masked frame with key 0: a status request of one byte.
		_, err = c.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
			"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n\x82\x81\x00\x00\x00\x00\x00"))
		s.must(err)
		status := s.node.Status()
		status.V1, status.Finality = false, ship.Range{}
		want := appendFrame(nil, true, opBinary, ship.AppendStatus(nil, &status))
		var got []byte
		for buf := make([]byte, 4096); !bytes.HasSuffix(got, want); {
			n, err := c.Read(buf)
			s.must(err)
			got = append(got, buf[:n]...)
		}
		if !bytes.Contains(got, s.node.ABI()) {
			t.Error("no ABI before the status")
		}
	})
}

func TestCounters(t *testing.T) {
	play(t, ChainOptions{}, Options{}, func(s *scene) {
		s.ask(5, 1000, 2)
		s.must(s.client.Ack(1))
		s.must(s.client.Ping(""))
		_, err := s.client.Status(context.Background(), false)
		s.must(err)
		s.wants("5..7")
		want := Counters{Links: 1, Requests: 1, Acks: 1, StatusRequests: 1, Pings: 1, Results: 3}
		if got := s.node.Counters(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
		if open, streaming := s.node.Links(); open != 1 || streaming != 1 {
			t.Errorf("%d links open, %d streaming", open, streaming)
		}
		s.client.Close()
		synctest.Wait()
		if open, _ := s.node.Links(); open != 0 {
			t.Errorf("%d links open after the client left", open)
		}
	})
}

func TestProduce(t *testing.T) {
	for _, tt := range []struct {
		name     string
		interval time.Duration
		after    time.Duration
		want     uint32
	}{
		{"half a second", 500 * time.Millisecond, 5100 * time.Millisecond, 110},
		{"many in a millisecond", 100 * time.Microsecond, 10500 * time.Microsecond, 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, ChainOptions{}, Options{}, func(s *scene) {
				ctx, stop := context.WithTimeout(context.Background(), tt.after)
				defer stop()
				s.chain.Produce(ctx, tt.interval)
				if got := s.chain.Head().Num; got != tt.want {
					t.Errorf("head %d, want %d", got, tt.want)
				}
			})
		})
	}
}
