package gateway

import (
	"context"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/config"
)

// take gives the listener a connection on which no handshake comes, and returns
// the client's end.
func take(l *listener) net.Conn {
	near, far := net.Pipe()
	l.take(far)
	synctest.Wait()
	return near
}

// isClosed waits for the end of a connection, but hardly at all.
func isClosed(conn net.Conn) bool {
	_ = conn.SetReadDeadline(time.Now().Add(time.Millisecond))
	_, err := conn.Read(make([]byte, 1))
	return err == io.EOF
}

// TestListenerKeepsMaxConnections, with the limit that is in force.
func TestListenerKeepsMaxConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lonely(t, newHosts(), func(c *config.Listener) { c.MaxConnections = 2 })
		defer l.stop()
		synctest.Wait()
		stats := l.fleet.Stats
		check := func(clients int64, accepted, rejected uint64) {
			t.Helper()
			if c, a, r := stats.Clients.Load(), stats.Accepted.Load(), stats.Rejected.Load(); c != clients || a != accepted || r != rejected {
				t.Errorf("%d clients, %d accepted, %d rejected; %d, %d, %d were due", c, a, r, clients, accepted, rejected)
			}
		}
		first, second := take(l), take(l)
		if third := take(l); !isClosed(third) {
			t.Error("a connection beyond max_connections is open")
		}
		check(2, 2, 1)
		first.Close()
		synctest.Wait()
		check(1, 2, 1)
		if again := take(l); isClosed(again) {
			t.Error("a connection was closed though there was room")
		}
		check(2, 3, 1)
		more := *l.fleet.Config()
		more.MaxConnections = 1
		l.fleet.Update(&more)
		if isClosed(second) || !isClosed(take(l)) {
			t.Error("a lower limit closes those that come, not those that are there")
		}
		check(2, 3, 2)
	})
}

// TestListenerThatHasStopped takes nobody, and leaves nothing behind.
func TestListenerThatHasStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lonely(t, newHosts(), nil)
		waiting := take(l)
		began := time.Now()
		l.stop()
		if took := time.Since(began); took != 0 {
			t.Errorf("the end took %v", took)
		}
		if !isClosed(waiting) || !isClosed(take(l)) {
			t.Error("a connection is open")
		}
		if got := l.fleet.Stats; got.Clients.Load() != 0 || got.Accepted.Load() != 1 || got.Rejected.Load() != 0 {
			t.Errorf("%d clients, %d accepted, %d rejected", got.Clients.Load(), got.Accepted.Load(), got.Rejected.Load())
		}
	})
}

// TestListenerEndsHandshakes that take too long.
func TestListenerEndsHandshakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lonely(t, newHosts(), func(c *config.Listener) { c.HandshakeTimeout = 5 * time.Second })
		defer l.stop()
		conn := take(l)
		began := time.Now()
		if _, err := conn.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("the connection ended with: %v", err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("it ended after %v", took)
		}
	})
}

// TestListenerOutlivesItsContext: the fleet is watched until stop, as what the
// clients do while they end needs it.
func TestListenerOutlivesItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lonely(t, newHosts(), nil)
		l.stop()
		ctx, cancel := context.WithCancel(t.Context())
		again, err := newListener(l.fleet.Config(), newHosts(), nil, quiet)
		if err != nil {
			t.Fatal(err)
		}
		again.start(ctx)
		cancel()
		synctest.Wait()
		before := again.fleet.View().Generation
		again.fleet.SetDisabled(0, true)
		if got := again.fleet.View().Generation; got != before+1 {
			t.Errorf("generation %d after %d: the fleet has ended", got, before)
		}
		again.stop()
	})
}
