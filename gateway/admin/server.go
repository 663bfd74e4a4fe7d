package admin

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// Limits of the port (spec "observability" 1.1). The longer ones bound a
// client that sends or reads slowly once its head is there.
const (
	maxConnections = 256
	headTimeout    = 5 * time.Second
	readTimeout    = 10 * time.Second
	writeTimeout   = 30 * time.Second
	maxHeadBytes   = 16 << 10
)

// Serve answers requests on l until ctx ends, which cuts the open ones. It
// closes l, and returns when every goroutine that it started has ended: nil
// after ctx, else why the port is gone. Several ports may be served at once;
// each has limits of its own.
//
// There is one request to a connection. A connection beyond the 256th, and one
// without a request head after five seconds, is closed without an answer.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	var conns, closer sync.WaitGroup
	srv := &http.Server{
		Handler:                      s.Handler(),
		ReadHeaderTimeout:            headTimeout,
		ReadTimeout:                  readTimeout,
		WriteTimeout:                 writeTimeout,
		MaxHeaderBytes:               maxHeadBytes,
		DisableGeneralOptionsHandler: true,
		ErrorLog:                     slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
		BaseContext:                  func(net.Listener) context.Context { return ctx },
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew:
				conns.Add(1)
			case http.StateClosed:
				conns.Done()
			}
		},
	}
	srv.SetKeepAlivesEnabled(false)
	ended := make(chan struct{})
	closer.Go(func() {
		select {
		case <-ctx.Done():
		case <-ended:
		}
		srv.Close()
	})
	err := srv.Serve(&limited{Listener: l, slots: make(chan struct{}, maxConnections)})
	close(ended)
	closer.Wait()
	conns.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("serving the admin port %s: %w", l.Addr(), err)
}

// limited closes the connections for which it has no slot.
type limited struct {
	net.Listener
	slots chan struct{}
}

func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.slots <- struct{}{}:
			return &slotConn{Conn: c, release: sync.OnceFunc(func() { <-l.slots })}, nil
		default:
			c.Close()
		}
	}
}

// slotConn gives its slot back when it is closed.
type slotConn struct {
	net.Conn
	release func()
}

func (c *slotConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
