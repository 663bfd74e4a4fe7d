package session

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"flotilla/gateway/ship"
)

// socket is a client's connection as the kernel keeps it: readable when as many
// bytes are there as are waited for.
type socket struct {
	mu       sync.Mutex
	low      int
	came     []arrival
	bytes    int
	lastRead time.Time
	readable chan struct{}

	reads  int
	calls  int           // of WaitFor
	most   time.Duration // that a message has waited
	unread int
}

// arrival is a message that is not read yet.
type arrival struct {
	at      time.Time
	request ship.Request
	bytes   int
}

func (k *socket) WaitFor(n int) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.low = n
	k.calls++
	k.wake()
	return true
}

func (k *socket) LastRead() time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lastRead
}

func (k *socket) wake() {
	if k.bytes >= k.low {
		select {
		case k.readable <- struct{}{}:
		default:
		}
	}
}

func (k *socket) send(q ship.Request, bytes int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.came = append(k.came, arrival{time.Now(), q, bytes})
	k.bytes += bytes
	k.wake()
}

func (k *socket) read() (came acks, any bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if any = len(k.came) > 0; !any {
		return came, false
	}
	for _, a := range k.came {
		came.add(&a.request, a.bytes)
		k.most = max(k.most, time.Since(a.at))
	}
	k.came, k.bytes, k.lastRead = nil, 0, time.Now()
	k.reads++
	return came, true
}

// gatheringClient runs play with a client whose messages are read as a session
// does, in a window of so much credit.
func gatheringClient(t *testing.T, window uint32, play func(k *socket)) *socket {
	k := &socket{low: 1}
	synctest.Test(t, func(t *testing.T) {
		k.readable = make(chan struct{}, 1)
		var lock sync.Mutex
		g := &gathering{mu: &lock, client: k}
		over := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				select {
				case <-k.readable:
				case <-over:
					return
				}
				if came, any := k.read(); any {
					lock.Lock()
					g.took(&came, window, time.Now())
					lock.Unlock()
				}
			}
		}()
		play(k)
		time.Sleep(2 * guardTime)
		synctest.Wait()
		k.unread = k.bytes
		close(over)
		<-done
		g.end()
	})
	return k
}

func ack(n uint32) ship.Request { return ship.Request{Variant: ship.AckRequestV0, Ack: n} }

func status() ship.Request { return ship.Request{Variant: ship.StatusRequestV0} }

// TestGather: fast acks are read together, others as they come.
func TestGather(t *testing.T) {
	stream := func(n int, each uint32, pause time.Duration) func(*socket) {
		return func(k *socket) {
			for range n {
				k.send(ack(each), 11)
				time.Sleep(pause)
			}
		}
	}
	for _, c := range []struct {
		name        string
		window      uint32
		play        func(*socket)
		least, most int // reads
		wait        time.Duration
	}{
		{"fast acks, half a window at a time", 50, stream(1016, 1, 10*time.Microsecond), 45, 60, 24 * 10 * time.Microsecond},
		{"as many as half a millisecond brings", 1 << 31, stream(1016, 1, 100*time.Microsecond), 205, 225, gatherTime},
		{"a window of two", 2, stream(100, 1, 20*time.Microsecond), 100, 100, 0},
		{"acks of a quarter of the window", 200, stream(1016, 50, 20*time.Microsecond), 345, 355, 2 * 20 * time.Microsecond},
		{"acks of half the window", 100, stream(100, 50, 20*time.Microsecond), 100, 100, 0},
		{"slow acks", 50, stream(100, 1, 2*time.Millisecond), 100, 100, 0},
		{"at the head", 0, stream(100, 1, 20*time.Microsecond), 100, 100, 0},
		{"something else now and then", 50, func(k *socket) {
			for range 100 {
				stream(10, 1, 20*time.Microsecond)(k)
				k.send(status(), 7)
				time.Sleep(20 * time.Microsecond)
			}
		}, 1100, 1100, 0},
		{"acks that stop, and come larger", 50, func(k *socket) {
			stream(115, 1, 20*time.Microsecond)(k)
			stream(3, 1, 20*time.Microsecond)(k)
			time.Sleep(time.Second)
			stream(10, 25, 20*time.Millisecond)(k)
		}, 30, 35, 2 * guardTime},
	} {
		k := gatheringClient(t, c.window, c.play)
		if k.reads < c.least || k.reads > c.most {
			t.Errorf("%s: %d reads, want %d to %d", c.name, k.reads, c.least, c.most)
		}
		if k.most > c.wait+guardTime && c.wait != 2*guardTime || k.most > 2*guardTime || c.wait == 0 && k.most > 0 {
			t.Errorf("%s: a message waited for %v", c.name, k.most)
		}
		if k.calls > 3 || c.wait == 0 && k.calls > 0 {
			t.Errorf("%s: %d system calls", c.name, k.calls)
		}
		if k.unread > 0 {
			t.Errorf("%s: %d bytes are never read", c.name, k.unread)
		}
	}
}

// TestGatherKeepsNothing: whatever a client sends, nothing of it waits for longer
// than two looks of the guard.
func TestGatherKeepsNothing(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		type step struct {
			n     int
			each  uint32
			other bool
			pause time.Duration
		}
		var steps []step
		for range rapid.IntRange(1, 20).Draw(r, "steps") {
			steps = append(steps, step{
				n:     rapid.IntRange(1, 200).Draw(r, "messages"),
				each:  rapid.SampledFrom([]uint32{0, 1, 2, 50, 1 << 31}).Draw(r, "ack"),
				other: rapid.IntRange(0, 3).Draw(r, "other") == 0,
				pause: time.Duration(rapid.SampledFrom([]int{0, 1, 20, 500, 3000, 20_000}).Draw(r, "pause")) * time.Microsecond,
			})
		}
		k := gatheringClient(t, rapid.SampledFrom([]uint32{0, 1, 2, 50, 1<<32 - 1}).Draw(r, "window"), func(k *socket) {
			for _, s := range steps {
				for range s.n {
					if s.other {
						k.send(status(), 7)
					} else {
						k.send(ack(s.each), 11)
					}
					time.Sleep(s.pause)
				}
			}
		})
		if k.most > 2*guardTime || k.unread > 0 {
			r.Fatalf("a message waited for %v, %d bytes are never read", k.most, k.unread)
		}
	})
}
