package statehistory

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/gorilla/websocket"
)

// Server is the SHiP port of an archive. Close it to end its goroutines.
type Server struct {
	archive     *Archive
	addr        string
	maxSessions int
	log         *slog.Logger
	http        http.Server
	upgrader    websocket.Upgrader

	// ctx ends with the server.
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	sessions int
}

// Serve serves an archive on l to at most maxSessions clients at a time; 0 is
// any number. Damage in a log ends the client's connection and is told to log.
// The archive has to stay open until Close. A client has to wait for the answer
// to its upgrade before it asks.
func Serve(l net.Listener, a *Archive, maxSessions int, log *slog.Logger) *Server {
	ctx, cancel := context.WithCancel(context.Background())
	s := &Server{
		archive: a, addr: l.Addr().String(), maxSessions: maxSessions, log: log, ctx: ctx, cancel: cancel,
		upgrader: websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }},
	}
	s.http.Handler = s
	s.wg.Go(func() {
		if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			log.Error("the archive's port is gone", "addr", s.addr, "error", err)
		}
	})
	return s
}

// Addr is the host:port of the server.
func (s *Server) Addr() string { return s.addr }

// Sessions is how many clients there are.
func (s *Server) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions
}

// Close closes the port and drops all connections, as the end of the process
// would. It may be called twice.
func (s *Server) Close() {
	s.cancel()
	_ = s.http.Close()
	s.wg.Wait()
}

// ServeHTTP answers the upgrade and serves the client until its connection
// ends. Whatever the path is, it is taken, as by nodeos.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	defer s.leave()
	ws, err := s.upgrader.Upgrade(w, r, nil)
	if err != nil {
		return // the upgrader has answered
	}
	if err := newSession(s.archive, ws).run(s.ctx); err != nil {
		s.log.Error("a session of the archive ended", "addr", s.addr, "error", err)
	}
}

// enter takes one place, unless all are taken or the server ends.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.maxSessions > 0 && s.sessions >= s.maxSessions || s.ctx.Err() != nil {
		return false
	}
	s.sessions++
	s.wg.Add(1)
	return true
}

func (s *Server) leave() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions--
	s.wg.Done()
}
