package frame

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// narrow makes the socket buffers of both ends small, so that a queue forms
// early. Much smaller than a segment of loopback they would stall instead.
func narrow(t *testing.T, conns ...net.Conn) {
	t.Helper()
	for _, c := range conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			if err := errors.Join(tcp.SetReadBuffer(128<<10), tcp.SetWriteBuffer(64<<10)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// deadline makes a test that hangs fail in a way that says where.
func deadline(t *testing.T, c net.Conn) {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(soon)); err != nil {
		t.Fatal(err)
	}
}

func pattern(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i ^ i>>8 ^ i>>16)
	}
	return b
}

func TestWriterKeepsOrder(t *testing.T) {
	const writers, each = 8, 200
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			ours, theirs := tr.pair(t)
			narrow(t, ours, theirs)
			deadline(t, theirs)
			w := NewWriter(NewConn(ours))
			var running sync.WaitGroup
			for id := range byte(writers) {
				running.Go(func() {
					for n := range uint32(each) {
						payload := make([]byte, 5+(n*37)%3000)
						payload[0] = id
						binary.BigEndian.PutUint32(payload[1:], n)
						if err := w.Write(Append(nil, Binary, payload)); err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
			var next [writers]uint32
			r := NewReader(NewConn(theirs), 1<<20, false, nil)
			for total := 0; total < writers*each; {
				var m Message
				ok, err := r.Next(&m)
				if err != nil {
					t.Fatal(err)
				}
				if !ok {
					if err := r.Fill(); err != nil {
						t.Fatal(err)
					}
					continue
				}
				p := m.Payload(nil)
				if n := binary.BigEndian.Uint32(p[1:]); n != next[p[0]] || len(p) != int(5+(n*37)%3000) {
					t.Fatalf("writer %d: frame %d of %d bytes came, want number %d", p[0], n, len(p), next[p[0]])
				}
				next[p[0]]++
				total++
			}
			running.Wait()
			w.Wait()
			if w.Queued() != 0 {
				t.Errorf("%d bytes are queued at the end", w.Queued())
			}
			r.Release()
			ours.Close()
			theirs.Close()
		})
	}
}

// TestWriterQueuesForAReaderThatDoesNotRead: the calls return, the rest waits,
// and comes in order once the peer reads.
func TestWriterQueuesForAReaderThatDoesNotRead(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			ours, theirs := tr.pair(t)
			narrow(t, ours, theirs)
			deadline(t, theirs)
			w := NewWriter(NewConn(ours))
			drained := make(chan struct{}, 1)
			w.OnDrain = func() {
				select {
				case drained <- struct{}{}:
				default:
				}
			}
			want := pattern(6 << 20)
			// The first fills the socket; the others find a queue. Nobody reads yet.
			for from := 0; from < len(want); from += 2 << 20 {
				if err := w.Write(want[from : from+2<<20]); err != nil {
					t.Fatal(err)
				}
			}
			before := w.Queued()
			if before <= 0 || before > int64(len(want)) {
				t.Fatalf("%d bytes are queued, nobody reads", before)
			}
			progress := w.Progress()
			got := make([]byte, len(want))
			if _, err := io.ReadFull(theirs, got); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Error("other bytes came")
			}
			w.Wait()
			if w.Queued() != 0 {
				t.Errorf("%d bytes are queued after all came", w.Queued())
			}
			if !w.Progress().After(progress) {
				t.Error("no progress shows")
			}
			select {
			case <-drained:
			default:
				t.Error("OnDrain was not called")
			}
			// The writer works on as before: no deadline was left behind.
			if err := w.Write([]byte("more")); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadFull(theirs, got[:4]); err != nil || string(got[:4]) != "more" {
				t.Errorf("got %q and %v", got[:4], err)
			}
			w.Wait()
			ours.Close()
			theirs.Close()
		})
	}
}

// gate is a connection that lets one write through at a time, and notes when
// two are tried at once.
type gate struct {
	net.Conn
	pass   chan struct{}
	inside atomic.Int32
	most   int32
	got    []byte
}

func (g *gate) Write(p []byte) (int, error) {
	g.most = max(g.most, g.inside.Add(1))
	<-g.pass
	g.got = append(g.got, p...)
	g.inside.Add(-1)
	return len(p), nil
}

// TestOneQueueAtATime: while the queue is being written, what comes is added to
// it and nothing else writes.
func TestOneQueueAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{pass: make(chan struct{})}
		w := NewWriter(NewConn(g))
		var progress []int64
		w.OnDrain = func() { progress = append(progress, w.Queued()) }
		for i, s := range []string{"one ", "two ", "three ", "four"} {
			if err := w.Write([]byte(s)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if i == 2 {
				g.pass <- struct{}{}
				synctest.Wait()
			}
		}
		if w.Queued() != int64(len("two three four")) {
			t.Errorf("%d bytes are queued", w.Queued())
		}
		close(g.pass)
		w.Wait()
		if string(g.got) != "one two three four" || g.most != 1 {
			t.Errorf("got %q, with %d writes at once", g.got, g.most)
		}
		if want := []int64{10, 4, 0}; !slices.Equal(progress, want) {
			t.Errorf("OnDrain has seen a queue of %v, want %v", progress, want)
		}
	})
}

// TestDrainPieces: progress shows while a long queue goes out.
func TestDrainPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{pass: make(chan struct{})}
		w := NewWriter(NewConn(g))
		if err := w.Write(make([]byte, 3*drainPiece+1)); err != nil {
			t.Fatal(err)
		}
		for _, left := range []int64{2*drainPiece + 1, drainPiece + 1, 1, 0} {
			time.Sleep(time.Second)
			g.pass <- struct{}{}
			synctest.Wait()
			if w.Queued() != left || !w.Progress().Equal(time.Now()) {
				t.Errorf("%d bytes are queued, want %d; the last progress was %v ago", w.Queued(), left, time.Since(w.Progress()))
			}
		}
		w.Wait()
	})
}

// TestProgressOfAQueueThatBegins: a reader who was sent nothing for an hour has
// not been slow for an hour.
func TestProgressOfAQueueThatBegins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{pass: make(chan struct{})}
		w := NewWriter(NewConn(g))
		time.Sleep(time.Hour)
		began := time.Now()
		for range 2 {
			if err := w.Write([]byte("block")); err != nil {
				t.Fatal(err)
			}
			if w.Queued() == 0 || !w.Progress().Equal(began) {
				t.Errorf("%d bytes are queued; the last progress was %v before they came", w.Queued(), began.Sub(w.Progress()))
			}
			time.Sleep(time.Minute)
		}
		close(g.pass)
		w.Wait()
	})
}

func TestWriterTakesNoBytesAfterTheCall(t *testing.T) {
	ours, theirs := net.Pipe()
	w := NewWriter(NewConn(ours))
	p := []byte("queued")
	if err := w.Write(p); err != nil {
		t.Fatal(err)
	}
	clear(p)
	got := make([]byte, 6)
	if _, err := io.ReadFull(theirs, got); err != nil || string(got) != "queued" {
		t.Errorf("got %q and %v", got, err)
	}
	ours.Close()
	w.Wait()
	theirs.Close()
}

func TestLockHoldsThePlace(t *testing.T) {
	ours, theirs := tcpPair(t)
	defer ours.Close()
	defer theirs.Close()
	deadline(t, theirs)
	w := NewWriter(NewConn(ours))
	w.Lock()
	second := make(chan error)
	go func() { second <- w.Write([]byte("second")) }()
	for _, s := range []string{"fi", "", "rst "} {
		if err := w.WriteLocked([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	w.Unlock()
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 12)
	if _, err := io.ReadFull(theirs, got); err != nil || string(got) != "first second" {
		t.Errorf("got %q and %v", got, err)
	}
}

func tlsPair(t *testing.T) (ours, theirs net.Conn) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	certificates := server.TLS.Certificates
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	server.Close()
	a, b := tcpPair(t)
	client := tls.Client(a, &tls.Config{RootCAs: roots, ServerName: "example.com"})
	host := tls.Server(b, &tls.Config{Certificates: certificates})
	failed := make(chan error)
	go func() { failed <- host.Handshake() }()
	if err := errors.Join(client.Handshake(), <-failed); err != nil {
		t.Fatal(err)
	}
	return client, host
}

// TestFinish: the half close comes behind all bytes, whether they are queued or
// not, and the other direction stays open.
func TestFinish(t *testing.T) {
	for name, pair := range map[string]func(*testing.T) (net.Conn, net.Conn){
		"tcp": func(t *testing.T) (net.Conn, net.Conn) { return tcpPair(t) },
		"tls": tlsPair,
	} {
		for _, size := range []int{0, 100, 8 << 20} {
			ours, theirs := pair(t)
			deadline(t, theirs)
			w := NewWriter(NewConn(ours))
			want := pattern(size)
			if err := w.Write(want); err != nil {
				t.Fatal(err)
			}
			w.Finish()
			w.Finish()
			got, err := io.ReadAll(theirs)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %d bytes: got %d and %v", name, size, len(got), err)
			}
			if _, err := theirs.Write([]byte("answer")); err != nil {
				t.Fatal(err)
			}
			deadline(t, ours)
			answer := make([]byte, 6)
			if _, err := io.ReadFull(ours, answer); err != nil || string(answer) != "answer" {
				t.Errorf("%s, %d bytes: got %q and %v back", name, size, answer, err)
			}
			w.Wait()
			ours.Close()
			theirs.Close()
		}
	}
}

// TestFinishWhileTheQueueDrains lets Finish meet the queue's goroutine at all
// of its stages.
func TestFinishWhileTheQueueDrains(t *testing.T) {
	for i := range 100 {
		ours, theirs := tcpPair(t)
		narrow(t, ours, theirs)
		deadline(t, theirs)
		w := NewWriter(NewConn(ours))
		want := pattern(100<<10 + i*977)
		var came []byte
		var err error
		read := make(chan struct{})
		go func() {
			defer close(read)
			came, err = io.ReadAll(theirs)
		}()
		for from := 0; from < len(want); from += 50 << 10 {
			if err := w.Write(want[from:min(from+50<<10, len(want))]); err != nil {
				t.Fatal(err)
			}
		}
		w.Finish()
		<-read
		if err != nil || !bytes.Equal(came, want) {
			t.Fatalf("%d bytes were written, %d came, with %v", len(want), len(came), err)
		}
		w.Wait()
		ours.Close()
		theirs.Close()
	}
}

func TestWriterErrorStays(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			ours, theirs := tr.pair(t)
			narrow(t, ours, theirs)
			w := NewWriter(NewConn(ours))
			if tcp, ok := theirs.(*net.TCPConn); ok {
				// A reset, not an end.
				if err := tcp.SetLinger(0); err != nil {
					t.Fatal(err)
				}
			}
			theirs.Close()
			var first error
			for end := time.Now().Add(soon); first == nil; {
				if time.Now().After(end) {
					t.Fatal("no write fails")
				}
				first = w.Write(make([]byte, 100<<10))
			}
			w.Wait()
			if err := w.Write([]byte("x")); err != first {
				t.Errorf("got %v, then %v", first, err)
			}
			if err := w.Write(nil); err != first {
				t.Errorf("got %v, then %v", first, err)
			}
			if w.Queued() != 0 {
				t.Errorf("%d bytes are queued on a broken connection", w.Queued())
			}
			w.Finish()
			ours.Close()
		})
	}
}

// TestCloseEndsTheQueue: the goroutine of a queue that nobody takes ends with
// the connection.
func TestCloseEndsTheQueue(t *testing.T) {
	for _, tr := range transports {
		t.Run(tr.name, func(t *testing.T) {
			ours, theirs := tr.pair(t)
			narrow(t, ours, theirs)
			defer theirs.Close()
			w := NewWriter(NewConn(ours))
			if err := w.Write(make([]byte, 8<<20)); err != nil {
				t.Fatal(err)
			}
			w.Finish()
			if w.Queued() == 0 {
				t.Fatal("nothing is queued")
			}
			ours.Close()
			w.Wait()
			if w.Queued() != 0 {
				t.Errorf("%d bytes are queued", w.Queued())
			}
			if err := w.Write([]byte("x")); err == nil {
				t.Error("a write after Close works")
			}
		})
	}
}

// TestWriterDoesNotWaitForAStoppedReader: only the write that fills the socket
// is patient.
func TestWriterDoesNotWaitForAStoppedReader(t *testing.T) {
	ours, theirs := tcpPair(t)
	narrow(t, ours, theirs)
	w := NewWriter(NewConn(ours))
	if err := w.Write(make([]byte, 8<<20)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	const writes = 3000
	for range writes {
		if err := w.Write([]byte("frame")); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(began); took > writes*patience/4 {
		t.Errorf("%d writes took %v", writes, took)
	}
	ours.Close()
	theirs.Close()
	w.Wait()
}

func BenchmarkWriter(b *testing.B) {
	ours, theirs := tcpPair(b)
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, theirs)
	}()
	w := NewWriter(NewConn(ours))
	p := Append(nil, Binary, make([]byte, 300))
	b.ReportAllocs()
	for b.Loop() {
		if err := w.Write(p); err != nil {
			b.Fatal(err)
		}
	}
	w.Wait()
	ours.Close()
	<-read
	theirs.Close()
}
