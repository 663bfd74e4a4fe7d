package simulator

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"flotilla/gateway/ship"
)

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault Fault
		play  func(s *scene)
	}{
		{"drop twice", Fault{Kind: Drop, Block: 7, Times: 2}, func(s *scene) {
			for range 2 {
				s.ask(5, 10, 100)
				s.ended(0)
				s.wants("5 6")
				s.redial()
			}
			s.ask(5, 10, 100)
			s.wants("5..9")
		}},
		{"drop at the start of any request", Fault{Kind: Drop, Times: 1}, func(s *scene) {
			s.ask(50, 60, 100)
			s.ended(0)
			s.wants("")
		}},
		{"drop always", Fault{Kind: Drop, Block: 7}, func(s *scene) {
			for range 3 {
				s.ask(7, 10, 100)
				s.ended(0)
				s.redial()
			}
		}},
		{"heal", Fault{Kind: Drop, Block: 7}, func(s *scene) {
			s.node.Heal()
			s.ask(5, 9, 100)
			s.wants("5..8")
		}},
		{"torn message", Fault{Kind: Tear, Block: 7, Times: 1}, func(s *scene) {
			s.ask(5, 10, 100)
			s.ended(0)
			s.wants("5 6")
		}},
		{"close frame", Fault{Kind: CloseLink, Block: 7, Times: 1}, func(s *scene) {
			s.ask(5, 10, 100)
			s.ended(websocket.CloseNormalClosure)
			s.wants("5 6")
		}},
		{"replay", Fault{Kind: Replay, Block: 7, Times: 1, Count: 2}, func(s *scene) {
			s.ask(5, 10, 100)
			s.wants("5 6 5..9")
			s.report(Report{Duplicates: 2})
		}},
		{"replay at the start", Fault{Kind: Replay, Times: 1, Count: 3}, func(s *scene) {
			s.ask(50, 60, 5)
			s.wants("47..51")
			s.client.Close()
		}},
		{"jump", Fault{Kind: Jump, Block: 7, Times: 1, Count: 2}, func(s *scene) {
			s.ask(5, 12, 100)
			s.wants("5 6 9..11")
			s.report(Report{Gaps: 1, Missing: 2})
		}},
		{"wrong prev", Fault{Kind: BreakPrev, Block: 7, Times: 1}, func(s *scene) {
			s.ask(5, 10, 100)
			s.wants("5..9")
			s.report(Report{BrokenLinks: 1})
		}},
		{"garbage", Fault{Kind: Garbage, Block: 7, Times: 1}, func(s *scene) {
			s.ask(5, 10, 100)
			s.wants("5..9")
			s.report(Report{Unknown: 1})
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			play(t, ChainOptions{}, Options{}, func(s *scene) {
				s.node.Inject(tt.fault)
				tt.play(s)
			})
		})
	}
}

func TestKillAndRestart(t *testing.T) {
	play(t, ChainOptions{}, Options{}, func(s *scene) {
		s.ask(99, 1000, 100)
		s.wants("99 100")
		s.node.Kill()
		s.ended(0)
		if _, err := s.tryDial(context.Background()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a dial to a killed node: %v", err)
		}
		addr := s.node.Addr()
		s.must(s.node.Restart())
		s.must(s.node.Restart())
		if s.node.Addr() != addr {
			t.Errorf("the address changed from %s to %s", addr, s.node.Addr())
		}
		s.redial()
		s.ask(99, 1000, 100)
		s.wants("99 100")
		s.node.Close()
		if s.node.Restart() == nil {
			t.Error("a closed node restarted")
		}
	})
}

func TestCloseCleanly(t *testing.T) {
	play(t, ChainOptions{}, Options{}, func(s *scene) {
		s.ask(99, 1000, 100)
		s.wants("99 100")
		s.node.CloseCleanly()
		s.ended(websocket.CloseNormalClosure)
		s.redial()
	})
}

func TestFreeze(t *testing.T) {
	play(t, ChainOptions{}, Options{}, func(s *scene) {
		s.ask(99, 1000, 100)
		s.wants("99 100")
		s.node.Freeze()
		s.must(s.client.Ping("x"))
		s.chain.Advance(2)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := s.tryDial(ctx); err == nil {
			t.Error("a frozen node answered a handshake")
		}
		s.wants("")
		if r := s.client.Report(); r.Pongs != 0 || r.LongestSilence < time.Minute {
			t.Errorf("%d pongs, longest silence %v", r.Pongs, r.LongestSilence)
		}
		s.node.Thaw()
		s.wants("101 102")
		if r := s.client.Report(); r.Pongs != 1 {
			t.Errorf("%d pongs after the thaw", r.Pongs)
		}
	})
}

func TestKillWhileFrozen(t *testing.T) {
	play(t, ChainOptions{}, Options{}, func(s *scene) {
		s.node.Freeze()
		s.node.Kill()
		s.ended(0)
	})
}

func TestStall(t *testing.T) {
	play(t, ChainOptions{}, Options{}, func(s *scene) {
		s.node.Stall(true)
		s.ask(99, 1000, 100)
		s.must(s.client.Ping("x"))
		_, err := s.client.Status(context.Background(), true)
		s.must(err)
		s.wants("")
		if got := s.client.Report().Pongs; got != 1 {
			t.Errorf("%d pongs", got)
		}
		s.node.Stall(false)
		s.wants("99 100")
	})
}

func TestMute(t *testing.T) {
	play(t, ChainOptions{}, Options{}, func(s *scene) {
		s.node.Mute(true)
		s.ask(99, 1000, 100)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := s.client.Status(ctx, true); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("status of a mute node: %v", err)
		}
		s.wants("99 100")
		s.node.Mute(false)
		if _, err := s.client.Status(context.Background(), true); err != nil {
			t.Error(err)
		}
	})
}

func TestBusyAndHang(t *testing.T) {
	play(t, ChainOptions{}, Options{}, func(s *scene) {
		s.node.Busy(true)
		if _, err := s.tryDial(context.Background()); !errors.Is(err, websocket.ErrBadHandshake) {
			t.Errorf("dial to a busy node: %v", err)
		}
		if got := s.node.Counters().Busy; got != 1 {
			t.Errorf("%d handshakes refused", got)
		}
		s.node.Busy(false)
		s.node.Hang(true)
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		start := time.Now()
		if _, err := s.tryDial(ctx); err == nil || time.Since(start) != time.Minute {
			t.Errorf("dial to a hanging node: %v after %v", err, time.Since(start))
		}
		s.node.Hang(false)
		s.redial()
	})
}

func TestLag(t *testing.T) {
	play(t, ChainOptions{}, Options{}, func(s *scene) {
		s.ask(99, 1000, 100)
		s.wants("99 100")
		s.node.Lag(3)
		s.chain.Advance(3)
		s.wants("")
		if st := s.node.Status(); st.Head.Num != 100 || st.LIB.Num != 80 {
			t.Errorf("head %d, LIB %d", st.Head.Num, st.LIB.Num)
		}
		s.chain.Advance(2)
		s.wants("101 102")
		s.must(s.chain.Fork(104, 106))
		s.wants("103")
		s.node.Lag(0)
		s.wants("104..106")
	})
}

func TestPinnedNodeOnAnotherBranch(t *testing.T) {
	play(t, ChainOptions{}, Options{}, func(s *scene) {
		s.node.Pin(true)
		old := s.chain.Head()
		s.must(s.chain.Fork(98, 102))
		other := s.start(Options{})
		if got := s.node.Status().Head; got != old {
			t.Errorf("the pinned node has head %v, want %v", got, old)
		}
		s.ask(97, 1000, 100)
		s.wants("97..100")
		// A client that moves on to the other node is taken back over the fork.
		have := s.client.Results()
		s.node = other
		s.redial()
		q := everything(101, 1000, 100)
		for _, r := range have {
			q.Have = append(q.Have, r.This)
		}
		s.must(s.client.Ask(q))
		s.wants("98..102")
	})
}

func TestChainID(t *testing.T) {
	play(t, ChainOptions{}, Options{}, func(s *scene) {
		s.node.SetChainID(ship.ID{1})
		st, err := s.client.Status(context.Background(), true)
		s.must(err)
		if st.ChainID != (ship.ID{1}) {
			t.Errorf("chain id %v", st.ChainID)
		}
	})
}

// TestSlowReader has one client that does not read: with one queue it stops the
// others, otherwise not.
func TestSlowReader(t *testing.T) {
	for name, oneQueue := range map[string]bool{"own queue each": false, "one queue": true} {
		t.Run(name, func(t *testing.T) {
			play(t, ChainOptions{Head: 10000}, Options{OneQueue: oneQueue}, func(s *scene) {
				ws, _, err := (&websocket.Dialer{NetDialContext: s.net.DialContext}).Dial(s.node.URL(), nil)
				s.must(err)
				q := everything(2, 10001, 100000)
				s.must(ws.WriteMessage(websocket.BinaryMessage, ship.AppendRequest(nil, &q)))
				synctest.Wait()
				s.ask(5, 10, 10)
				if oneQueue {
					s.wants("")
				} else {
					s.wants("5..9")
				}
				s.must(ws.Close())
				if oneQueue {
					s.wants("5..9")
				}
			})
		})
	}
}

func TestRealTCP(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	chain := NewChain(ChainOptions{Head: 20000, Sizes: Sizes{Block: 100, Traces: 100, Deltas: 100}})
	node, err := Start(chain, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	ask := func(start, end uint32) {
		t.Helper()
		c, err := Dial(ctx, node.URL(), ClientOptions{AckEvery: 10, CheckPayload: true})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Ask(everything(start, end, 50)); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(ctx, func(r Report) bool { return r.Last.Num == end-1 }); err != nil {
			t.Fatal(err)
		}
		if err := c.Report().Err(); err != nil {
			t.Error(err)
		}
	}
	ask(2, 20001)
	node.Kill()
	if _, err := Dial(ctx, node.URL(), ClientOptions{}); err == nil {
		t.Error("a killed node took a connection")
	}
	if err := node.Restart(); err != nil {
		t.Fatal(err)
	}
	ask(100, 200)
}

func TestLargeBlocks(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	chain := NewChain(ChainOptions{Head: 20, Sizes: Sizes{Block: 70000, Traces: 3<<20 + 1, Deltas: 1 << 20}})
	node, err := Start(chain, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	c, err := Dial(ctx, node.URL(), ClientOptions{CheckPayload: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ask(everything(2, 5, 50)); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(ctx, func(r Report) bool { return r.Last.Num == 4 }); err != nil {
		t.Fatal(err)
	}
	if err := c.Report().Err(); err != nil {
		t.Error(err)
	}
}

func TestFragments(t *testing.T) {
	v := NewChain(ChainOptions{Head: 10}).view()
	r := ship.Block{BlockHeader: ship.BlockHeader{V1: true, HasThis: true, This: v.pos(5), HasPrev: true, Prev: v.pos(4)},
		Block: make([]byte, 200), Traces: make([]byte, maxPiece+5), Finality: []byte{}}
	msg := ship.AppendBlock(nil, &r)
	var sizes []int
	var whole []byte
	for b := appendFragments(nil, msg, &r); len(b) > 0; {
		size, at := int(b[1]), 2
		switch size {
		case 126:
			size, at = int(b[2])<<8|int(b[3]), 4
		case 127:
			size, at = int(b[6])<<24|int(b[7])<<16|int(b[8])<<8|int(b[9]), 10
		}
		first, last := len(sizes) == 0, len(b) == at+size
		if (b[0]&0x0f == opBinary) != first || (b[0]&0x80 != 0) != last {
			t.Errorf("frame %d begins with %#x", len(sizes), b[0])
		}
		sizes = append(sizes, size)
		whole = append(whole, b[at:at+size]...)
		b = b[at+size:]
	}
	if string(whole) != string(msg) {
		t.Error("the frames do not make the message")
	}
	// Index; positions and block; traces in three; no deltas; finality; the end.
	want := []int{1, 72 + 2*37 + 3 + 200, 4, maxPiece, 5, 1, 2, 0}
	if len(sizes) != len(want) {
		t.Fatalf("frames of %v bytes, want %v", sizes, want)
	}
	for i := range want {
		if sizes[i] != want[i] {
			t.Fatalf("frames of %v bytes, want %v", sizes, want)
		}
	}
}

func TestBadHandshake(t *testing.T) {
	play(t, ChainOptions{}, Options{}, func(s *scene) {
		for request, want := range map[string]string{
			"GET / HTTP/1.1\r\nHost: x\r\n\r\n": "HTTP/1.1 400",
			"rubbish\r\n\r\n":                   "",
		} {
			c, err := s.net.DialContext(context.Background(), "", s.node.Addr())
			s.must(err)
			_, err = io.WriteString(c, request)
			s.must(err)
			got, err := io.ReadAll(c)
			s.must(err)
			if !strings.HasPrefix(string(got), want) || want == "" && len(got) > 0 {
				t.Errorf("%q is answered with %q, want %q", request, got, want)
			}
			s.must(c.Close())
		}
	})
}

func TestNetworkDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := memoryPipe("x")
		var timeout net.Error
		_ = a.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := a.Read(make([]byte, 1)); !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("read: %v", err)
		}
		_ = a.SetWriteDeadline(time.Now().Add(time.Second))
		n, err := a.Write(make([]byte, 2*memoryBuffer))
		if !errors.As(err, &timeout) || n != memoryBuffer {
			t.Errorf("write: %d bytes, %v", n, err)
		}
		_ = a.SetDeadline(time.Time{})
		if err := a.Close(); err != nil {
			t.Error(err)
		}
		if got, err := io.ReadAll(b); err != nil || len(got) != memoryBuffer {
			t.Errorf("the rest: %d bytes, %v", len(got), err)
		}
		if _, err := b.Write([]byte{1}); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write to a closed connection: %v", err)
		}
	})
}
