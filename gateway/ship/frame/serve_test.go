//go:build unix

package frame

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

// served is a Reader on a real socket, with and without a kernel that tells what
// is left after a read.
func served(t *testing.T, f func(t *testing.T, r *Reader, theirs net.Conn)) {
	for _, tells := range []bool{true, false} {
		t.Run(map[bool]string{true: "told what is left", false: "not told"}[tells], func(t *testing.T) {
			ours, theirs := tcpPair(t)
			c := NewConn(ours)
			if tells {
				c.ReadOnce()
			}
			if c.tellsRest != (tells && runtime.GOOS == "linux") {
				t.Fatal("the kernel is not asked what is left")
			}
			r := NewReader(c, 1<<20, false, nil)
			defer r.Release()
			defer ours.Close()
			defer theirs.Close()
			f(t, r, theirs)
		})
	}
}

// collect counts the payload of all messages that are there.
func collect(t *testing.T, r *Reader, bytes *int) {
	var m Message
	for {
		ok, err := r.Next(&m)
		if err != nil {
			t.Error(err)
		}
		if !ok {
			return
		}
		*bytes += m.Size
	}
}

// TestServeSeesTheEnd that came together with the last bytes: nothing more makes
// the socket readable then.
func TestServeSeesTheEnd(t *testing.T) {
	served(t, func(t *testing.T, r *Reader, theirs net.Conn) {
		if _, err := theirs.Write(Append(nil, Binary, make([]byte, 1000))); err != nil {
			t.Fatal(err)
		}
		theirs.Close()
		time.Sleep(10 * time.Millisecond) // both are there; a run in which they are not proves less
		if err := r.conn.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		got := 0
		if err := r.Serve(func() bool { collect(t, r, &got); return true }); !errors.Is(err, io.EOF) || got != 1000 {
			t.Errorf("%d bytes, then %v", got, err)
		}
	})
}

// TestServeMissesNothing that comes at whatever moment: while it is read, taken,
// or just before the wait.
func TestServeMissesNothing(t *testing.T) {
	served(t, func(t *testing.T, r *Reader, theirs net.Conn) {
		const pieces = 3000
		sent := make(chan int, 1)
		go func() {
			total := 0
			rng := rand.New(rand.NewPCG(1, 2))
			for range pieces {
				n := rng.IntN(3000)
				if rng.IntN(50) == 0 {
					n = 300_000
				}
				if _, err := theirs.Write(Append(nil, Binary, make([]byte, n))); err != nil {
					break
				}
				total += n
				for range rng.IntN(20) {
					runtime.Gosched()
				}
			}
			sent <- total
			theirs.Close()
		}()
		if err := r.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		got := 0
		err := r.Serve(func() bool { collect(t, r, &got); return true })
		if want := <-sent; !errors.Is(err, io.EOF) || got != want {
			t.Errorf("%d of %d bytes, then %v", got, want, err)
		}
	})
}

// TestServeEnds when it is told to, and when a deadline or a Close interrupts its
// wait.
func TestServeEnds(t *testing.T) {
	served(t, func(t *testing.T, r *Reader, theirs net.Conn) {
		send := func() {
			if _, err := theirs.Write(Append(nil, Binary, []byte("one"))); err != nil {
				t.Fatal(err)
			}
		}
		send()
		got := 0
		if err := r.Serve(func() bool { collect(t, r, &got); return false }); err != nil || got != 3 {
			t.Errorf("told to end: %d bytes, %v", got, err)
		}
		send()
		taken := make(chan struct{}, 1)
		ended := make(chan error)
		go func() { ended <- r.Serve(func() bool { collect(t, r, &got); taken <- struct{}{}; return true }) }()
		<-taken
		if err := r.conn.SetReadDeadline(time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) || got != 6 {
			t.Errorf("a deadline: %d bytes, %v", got, err)
		}
		if err := r.conn.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		send()
		go func() { ended <- r.Serve(func() bool { collect(t, r, &got); taken <- struct{}{}; return true }) }()
		<-taken
		r.conn.Close()
		if err := <-ended; !errors.Is(err, net.ErrClosed) || got != 9 {
			t.Errorf("a Close: %d bytes, %v", got, err)
		}
	})
}

// TestWaitFor leaves what is too little to the kernel, until more comes, less will
// do, or the stream ends. A wake-up that was under way may still bring less.
func TestWaitFor(t *testing.T) {
	served(t, func(t *testing.T, r *Reader, theirs net.Conn) {
		if !r.conn.tellsRest {
			if r.conn.WaitFor(2) {
				t.Error("a connection waits for bytes that cannot tell what is left")
			}
			return
		}
		frame := Append(nil, Binary, []byte("abc"))
		const frames, together = 300, 30
		var took, came atomic.Int64
		waits := make(chan bool, 1)
		ended := make(chan error, 1)
		go func() {
			ended <- r.Serve(func() bool {
				got := 0
				collect(t, r, &got)
				came.Add(int64(got))
				if took.Add(1) == 1 {
					waits <- r.conn.WaitFor(together * len(frame))
				}
				return true
			})
		}()
		send := func(n int) {
			for range n {
				if _, err := theirs.Write(frame); err != nil {
					t.Error(err)
				}
				time.Sleep(100 * time.Microsecond) // to be read alone, were it not waited for
			}
		}
		has := func(what string, n int) {
			t.Helper()
			for deadline := time.Now().Add(time.Minute); came.Load() != int64(3*n); time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("%s: %d bytes came, want %d", what, came.Load(), 3*n)
				}
			}
		}
		send(1)
		if !<-waits {
			t.Fatal("it does not wait for bytes")
		}
		send(frames)
		if n := took.Load(); n > 1+frames/together+2 {
			t.Errorf("%d messages were read one by one, in %d reads", frames, n)
		}
		send(together / 2)
		r.conn.WaitFor(1)
		has("less will do", 1+frames+together/2)
		r.conn.WaitFor(together * len(frame))
		send(1)
		theirs.Close()
		if err := <-ended; !errors.Is(err, io.EOF) {
			t.Errorf("it ends with %v", err)
		}
		has("the stream has ended", 2+frames+together/2)
	})
}

// TestServeHoldsNoBuffer while it waits, but for half a message.
func TestServeHoldsNoBuffer(t *testing.T) {
	served(t, func(t *testing.T, r *Reader, theirs net.Conn) {
		waits := make(chan bool)
		try := r.conn.serving.call
		r.conn.serving.call = func(fd uintptr) bool {
			done := try(fd)
			if !done {
				waits <- r.buf != nil
			}
			return done
		}
		ended := make(chan error)
		got := 0
		go func() { ended <- r.Serve(func() bool { collect(t, r, &got); return got < 10 }) }()
		frame := Append(nil, Binary, []byte("whole"))
		for i, c := range []struct {
			send []byte
			held bool
		}{{nil, false}, {frame, false}, {frame[:3], true}} {
			if _, err := theirs.Write(c.send); err != nil {
				t.Fatal(err)
			}
			if held := <-waits; held != c.held {
				t.Errorf("wait %d: a buffer is held: %v", i, held)
			}
		}
		if _, err := theirs.Write(frame[3:]); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; err != nil || got != 10 {
			t.Errorf("%d bytes, %v", got, err)
		}
	})
}

// TestBroken: a reset that came together with the last bytes shows in Broken and
// in a write, if not in Serve.
func TestBroken(t *testing.T) {
	for _, find := range []string{"Broken", "a write"} {
		served(t, func(t *testing.T, r *Reader, theirs net.Conn) {
			if find == "Broken" && r.conn.Broken() {
				t.Fatal("the connection is broken from the start")
			}
			if _, err := theirs.Write(Append(nil, Binary, make([]byte, 1000))); err != nil {
				t.Fatal(err)
			}
			if err := theirs.(*net.TCPConn).SetLinger(0); err != nil { // Close resets
				t.Fatal(err)
			}
			theirs.Close()
			time.Sleep(10 * time.Millisecond) // both are there; a run in which they are not proves less
			w := NewWriter(r.conn)
			failed := 0
			w.OnError = func() { failed++; _ = r.conn.SetReadDeadline(time.Unix(1, 0)) }
			got := 0
			ended := make(chan error)
			taken := make(chan struct{})
			go func() {
				ended <- r.Serve(func() bool { collect(t, r, &got); close(taken); return true })
			}()
			<-taken
			var told error
			if r.conn.tellsRest {
				if find == "Broken" {
					if !r.conn.Broken() {
						t.Error("the connection is not broken")
					}
					_ = r.conn.SetReadDeadline(time.Unix(1, 0))
				} else if told = w.WriteFrame(Ping, nil); told == nil || failed != 1 {
					t.Errorf("a write says %v, and OnError was called %d times", told, failed)
				}
				told = w.WriteFrame(Ping, nil)
			}
			if err := <-ended; err == nil || got != 1000 {
				t.Errorf("%d bytes, then %v", got, err)
			}
			if failed > 1 {
				t.Errorf("OnError was called %d times, the last error is %v", failed, told)
			}
		})
	}
}
