package chainapi

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"
)

// slots bound the requests in flight to one upstream API. Those that wait get
// theirs in the order in which they came.
type slots struct {
	mu      sync.Mutex
	limit   int
	waiting list.List // of chan struct{}, each closed when its slot is taken
	// taken allows a look without the lock.
	taken atomic.Int64
	cap   atomic.Int64
}

// used is how many slots are taken.
func (s *slots) used() int64 { return s.taken.Load() }

// full reports whether a request would have to wait.
func (s *slots) full() bool { return s.taken.Load() >= s.cap.Load() }

// setLimit changes how many slots there are, at least one. Requests that have
// one beyond it keep it.
func (s *slots) setLimit(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limit = max(n, 1)
	s.cap.Store(int64(s.limit))
	s.hand()
}

// take takes a slot if one is free.
func (s *slots) take() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting.Len() > 0 || s.taken.Load() >= int64(s.limit) {
		return false
	}
	s.taken.Add(1)
	return true
}

// wait takes a slot, waiting for one for as long as patience. It reports false
// when none became free.
func (s *slots) wait(patience time.Duration) bool {
	if s.take() {
		return true
	}
	if patience <= 0 {
		return false
	}
	ready := make(chan struct{})
	s.mu.Lock()
	place := s.waiting.PushBack(ready)
	s.hand()
	s.mu.Unlock()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-ready:
		return true
	case <-timer.C:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-ready: // it came at the last moment
		return true
	default:
		s.waiting.Remove(place)
		return false
	}
}

// release gives a slot back.
func (s *slots) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken.Add(-1)
	s.hand()
}

// hand gives free slots to those that wait. The caller holds the lock.
func (s *slots) hand() {
	for s.waiting.Len() > 0 && s.taken.Load() < int64(s.limit) {
		s.taken.Add(1)
		close(s.waiting.Remove(s.waiting.Front()).(chan struct{}))
	}
}
