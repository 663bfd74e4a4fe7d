package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// pair is a link with both of its ends: near is that of the one who dialed.
type pair struct {
	*Link
	near, far net.Conn
}

// inPair runs test with a link in a bubble.
func inPair(t *testing.T, seed uint64, test func(t *testing.T, p *pair)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := New(seed)
		l, err := n.Listen("there:1")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		p := &pair{}
		accepted := make(chan error, 1)
		go func() {
			var err error
			p.far, err = l.Accept()
			accepted <- err
		}()
		p.near, err = n.DialContext(t.Context(), "tcp", "there:1")
		if err != nil {
			t.Fatal(err)
		}
		if err := <-accepted; err != nil {
			t.Fatal(err)
		}
		p.Link = n.Open("there:1")[0]
		test(t, p)
		p.near.Close()
		p.far.Close()
		if open := n.Open("there:1"); len(open) != 0 {
			t.Errorf("%d links are open at the end", len(open))
		}
	})
}

func write(t *testing.T, c net.Conn, n int) {
	t.Helper()
	if _, err := c.Write(counting(n)); err != nil {
		t.Fatal(err)
	}
}

// counting is n bytes that tell where they belong.
func counting(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// reads reads until there is an error or nothing comes for an hour: the size
// and the time of each read.
func reads(c net.Conn) (all []byte, sizes []int, times []time.Duration, err error) {
	began := time.Now()
	for {
		_ = c.SetReadDeadline(time.Now().Add(time.Hour))
		b := make([]byte, 64<<10)
		n, err := c.Read(b)
		if err != nil {
			return all, sizes, times, err
		}
		all, sizes, times = append(all, b[:n]...), append(sizes, n), append(times, time.Since(began))
	}
}

func TestLineCarriesAllAndThenItsEnd(t *testing.T) {
	inPair(t, 1, func(t *testing.T, p *pair) {
		for _, way := range []struct{ from, to net.Conn }{{p.near, p.far}, {p.far, p.near}} {
			write(t, way.from, 1000)
			write(t, way.from, 1)
			way.from.(*conn).CloseWrite()
			got, _, times, err := reads(way.to)
			if !bytes.Equal(got, append(counting(1000), 0)) || !errors.Is(err, io.EOF) || times[0] != 0 {
				t.Errorf("%d bytes came at %v, and then %v", len(got), times, err)
			}
		}
	})
}

func TestShapes(t *testing.T) {
	const second = time.Second
	for name, c := range map[string]struct {
		shape Shape
		// writes are the sizes of the writes, a second apart.
		writes, sizes []int
		times         []time.Duration
	}{
		"plain":               {Shape{}, []int{3, 4}, []int{3, 4}, []time.Duration{0, second}},
		"latency":             {Shape{Latency: 5 * second}, []int{3, 4}, []int{3, 4}, []time.Duration{5 * second, 6 * second}},
		"bandwidth":           {Shape{Bandwidth: 100}, []int{50, 100, 200}, []int{50, 100, 200}, []time.Duration{second / 2, 2 * second, 4 * second}},
		"bandwidth, packets":  {Shape{Bandwidth: packet}, []int{2*packet + 1}, []int{packet, packet, 1}, []time.Duration{second, 2 * second, 2*second + second/packet}},
		"bandwidth, latency":  {Shape{Bandwidth: 100, Latency: second}, []int{50, 100}, []int{50, 100}, []time.Duration{3 * second / 2, 3 * second}},
		"single bytes":        {Shape{Slices: []int{1}}, []int{2, 2}, []int{1, 1, 1, 1}, []time.Duration{0, 0, second, second}},
		"slices over writes":  {Shape{Slices: []int{2, 3}}, []int{4, 4, 4}, []int{2, 2, 1, 2, 1, 2, 2}, []time.Duration{0, 0, second, second, second, 2 * second, 2 * second}},
		"slices and latency":  {Shape{Slices: []int{2}, Latency: second}, []int{3}, []int{2, 1}, []time.Duration{second, second}},
		"slices of a packet":  {Shape{Slices: []int{packet + 1}, Bandwidth: packet}, []int{packet + 2}, []int{packet, 1, 1}, []time.Duration{second, second + second/packet, second + 2*(second/packet)}},
		"a slice beyond ends": {Shape{Slices: []int{3, 1 << 40}}, []int{7, 9}, []int{3, 4, 9}, []time.Duration{0, 0, second}},
	} {
		t.Run(name, func(t *testing.T) {
			inPair(t, 1, func(t *testing.T, p *pair) {
				p.Down.Shape(c.shape)
				done := make(chan struct{})
				go func() {
					defer close(done)
					for _, n := range c.writes {
						write(t, p.far, n)
						time.Sleep(time.Second)
					}
				}()
				_, sizes, times, err := reads(p.near)
				if !slices.Equal(sizes, c.sizes) || !slices.Equal(times, c.times) || !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("reads of %v at %v, %v; %v at %v were due", sizes, times, err, c.sizes, c.times)
				}
				<-done
			})
		})
	}
}

// jittered are the times at which bytes that were written 10 ms apart arrive.
func jittered(t *testing.T, seed uint64) (times []time.Duration) {
	inPair(t, seed, func(t *testing.T, p *pair) {
		p.Up.Shape(Shape{Latency: 10 * time.Millisecond, Jitter: 200 * time.Millisecond, Slices: []int{1}})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for i := range 50 {
				if _, err := p.near.Write([]byte{byte(i)}); err != nil {
					t.Error(err)
				}
				time.Sleep(10 * time.Millisecond)
			}
		}()
		var got []byte
		got, _, times, _ = reads(p.far)
		if !bytes.Equal(got, counting(50)) {
			t.Errorf("got %v", got)
		}
		<-done
	})
	return times
}

func TestJitterFollowsFromTheSeed(t *testing.T) {
	a, again, other := jittered(t, 1), jittered(t, 1), jittered(t, 2)
	if !slices.Equal(a, again) || slices.Equal(a, other) {
		t.Errorf("seed 1 gives %v and %v, seed 2 %v", a, again, other)
	}
	for i, at := range a {
		if late := at - time.Duration(i)*10*time.Millisecond; late < 10*time.Millisecond || late >= 210*time.Millisecond {
			t.Errorf("byte %d is under way for %v", i, late)
		}
	}
}

func TestResetTakesBothDirections(t *testing.T) {
	for name, reset := range map[string]func(p *pair){
		"now":   func(p *pair) { p.Reset() },
		"after": func(p *pair) { p.Down.ResetAfter(0) },
	} {
		t.Run(name, func(t *testing.T) {
			inPair(t, 1, func(t *testing.T, p *pair) {
				write(t, p.near, 10)
				write(t, p.far, 10)
				reset(p)
				for _, c := range []net.Conn{p.near, p.far} {
					if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
						t.Errorf("read %d bytes, %v", n, err)
					}
					if _, err := c.Write([]byte{1}); !errors.Is(err, syscall.ECONNRESET) {
						t.Errorf("write: %v", err)
					}
				}
			})
		})
	}
}

func TestResetAfterSomeBytes(t *testing.T) {
	for n := range 12 {
		inPair(t, 1, func(t *testing.T, p *pair) {
			write(t, p.far, 3)
			if _, err := io.ReadFull(p.near, make([]byte, 3)); err != nil {
				t.Fatal(err)
			}
			p.Down.ResetAfter(int64(n))
			// All of the writes are refused when the reset comes at once.
			_, _ = p.far.Write(counting(8))
			_, _ = p.far.Write(counting(8))
			got, _, _, err := reads(p.near)
			if len(got) != n || !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("%d bytes came and then %v, %d were due", len(got), err, n)
			}
			if _, err := p.far.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the other end: %v", err)
			}
		})
	}
}

func TestLostBytesAndEnds(t *testing.T) {
	inPair(t, 1, func(t *testing.T, p *pair) {
		write(t, p.far, 10)
		p.Lose()
		write(t, p.far, 10)
		if err := p.far.SetWriteDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if n, err := p.far.Write(make([]byte, capacity)); n != capacity-20 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes were taken, then %v", n, err)
		}
		p.far.Close()
		if got, _, _, err := reads(p.near); len(got) != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes came and then %v", len(got), err)
		}
		write(t, p.near, 10)
	})
}

func TestStallHoldsBackOneDirection(t *testing.T) {
	inPair(t, 1, func(t *testing.T, p *pair) {
		write(t, p.far, 3)
		p.Down.Stall(true)
		write(t, p.far, 4)
		p.far.(*conn).CloseWrite()
		if got, _, _, err := reads(p.near); len(got) != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%d bytes came and then %v", len(got), err)
		}
		write(t, p.near, 5)
		if got, _, _, _ := reads(p.far); len(got) != 5 {
			t.Errorf("%d bytes came the other way", len(got))
		}
		p.Down.Stall(false)
		if got, _, _, err := reads(p.near); len(got) != 7 || !errors.Is(err, io.EOF) {
			t.Errorf("%d bytes came in the end and then %v", len(got), err)
		}
	})
}

func TestHalfCloseLeavesTheOtherDirection(t *testing.T) {
	inPair(t, 1, func(t *testing.T, p *pair) {
		p.Down.Shape(Shape{Latency: time.Second})
		write(t, p.far, 3)
		p.Down.Finish()
		write(t, p.far, 4)
		got, _, times, err := reads(p.near)
		if len(got) != 3 || times[0] != time.Second || !errors.Is(err, io.EOF) {
			t.Errorf("%d bytes came at %v and then %v", len(got), times, err)
		}
		write(t, p.near, 5)
		if got, _, _, _ := reads(p.far); len(got) != 5 {
			t.Errorf("%d bytes came the other way", len(got))
		}
	})
}

func TestWriterWaitsForRoom(t *testing.T) {
	inPair(t, 1, func(t *testing.T, p *pair) {
		done := make(chan struct{})
		go func() {
			defer close(done)
			write(t, p.near, 3*capacity)
		}()
		synctest.Wait()
		select {
		case <-done:
			t.Error("the write does not wait")
		default:
		}
		if got, _, _, _ := reads(p.far); !bytes.Equal(got, counting(3*capacity)) {
			t.Errorf("%d bytes came", len(got))
		}
		<-done
	})
}

func TestClosedEnds(t *testing.T) {
	inPair(t, 1, func(t *testing.T, p *pair) {
		blocked := make(chan error, 1)
		go func() {
			_, err := p.far.Read(make([]byte, 1))
			blocked <- err
		}()
		synctest.Wait()
		p.far.Close()
		if err := <-blocked; !errors.Is(err, net.ErrClosed) {
			t.Errorf("the read ends with %v", err)
		}
		if _, err := p.far.Write([]byte{1}); !errors.Is(err, net.ErrClosed) {
			t.Errorf("write on a closed end: %v", err)
		}
		if _, err := p.near.Write([]byte{1}); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write to a closed end: %v", err)
		}
		if _, err := p.near.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("read from a closed end: %v", err)
		}
	})
}

func TestDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		if _, err := n.DialContext(t.Context(), "tcp", "there:1"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("nobody listens: %v", err)
		}
		l, err := n.Listen("there:1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := n.Listen("there:1"); !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("a second listener: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.DialContext(ctx, "tcp", "there:1"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("nobody accepts: %v", err)
		}
		l.Close()
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept on a closed listener: %v", err)
		}
		if open := n.Open("there:1"); len(open) != 0 || len(n.between) != 0 {
			t.Errorf("%d links are open and %d in between", len(open), len(n.between))
		}
	})
}

func TestPlanComesBeforeTheFirstByte(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(1)
		l, err := n.Listen("there:1")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		n.OnDial("there:1", func(l *Link) { l.Down.ResetAfter(int64(l.Number)) })
		for want := 1; want < 4; want++ {
			far := make(chan net.Conn)
			go func() {
				c, err := l.Accept()
				if err != nil {
					t.Error(err)
				}
				_, _ = c.Write(counting(10))
				far <- c
			}()
			near, err := n.DialContext(t.Context(), "tcp", "there:1")
			if err != nil {
				t.Fatal(err)
			}
			if got, _, _, _ := reads(near); len(got) != want {
				t.Errorf("%d bytes came, %d were due", len(got), want)
			}
			near.Close()
			(<-far).Close()
		}
	})
}
