//go:build unix

package frame

import "testing"

// TestIdleReaderHoldsNoBuffer looks at the moment before a read begins to wait.
func TestIdleReaderHoldsNoBuffer(t *testing.T) {
	for _, early := range []string{"", string(wire(false, piece{op: Binary, payload: "whole"})), "\x82\x05par"} {
		ours, theirs := tcpPair(t)
		c := NewConn(ours)
		r := NewReader(c, 100, false, []byte(early))
		for {
			if ok, err := r.Next(new(Message)); err != nil {
				t.Fatal(err)
			} else if !ok {
				break
			}
		}
		half := r.Buffered() > 0
		waits := make(chan bool, 1)
		try := c.reading.call
		c.reading.call = func(fd uintptr) bool {
			done := try(fd)
			if !done {
				select {
				case waits <- *c.reading.buf != nil:
				default:
				}
			}
			return done
		}
		filled := make(chan error)
		go func() { filled <- r.Fill() }()
		if held := <-waits; held != half {
			t.Errorf("early %q: a buffer is held while the reader waits: %v", early, held)
		}
		if _, err := theirs.Write([]byte("ts")); err != nil {
			t.Fatal(err)
		}
		if err := <-filled; err != nil {
			t.Fatal(err)
		}
		if half {
			var m Message
			if ok, err := r.Next(&m); !ok || err != nil || string(m.Payload(nil)) != "parts" {
				t.Errorf("got %v, %v and %q", ok, err, m.Payload(nil))
			}
		}
		r.Release()
		ours.Close()
		theirs.Close()
	}
}

func TestTCPIsReadAndWrittenDirectly(t *testing.T) {
	ours, theirs := tcpPair(t)
	defer ours.Close()
	defer theirs.Close()
	c := NewConn(ours)
	n, err := c.writeNow([]byte("abc"))
	if n != 3 || err != nil {
		t.Errorf("got %d and %v, want all 3 bytes written at once", n, err)
	}
	theirs.Close()
	ours.Close()
	if _, err := c.writeNow([]byte("abc")); err == nil {
		t.Error("a write to a closed connection works")
	}
}
