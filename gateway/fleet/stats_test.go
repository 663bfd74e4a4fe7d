package fleet

import (
	"fmt"
	"sync"
	"testing"
)

func TestCloses(t *testing.T) {
	s := newStats()
	for _, code := range []int{1011, 1000, 0, 1015, 1011, 999, 1016, -1, 4000} {
		s.Closed(code)
	}
	got := ""
	s.EachClosed(func(code int, n uint64) { got += fmt.Sprintf("%d:%d ", code, n) })
	if want := "0:5 1000:1 1011:2 1015:1 "; got != want {
		t.Errorf("counted %s, %s was due", got, want)
	}
}

// TestMove counts every session in one phase, whoever moves at the same time.
func TestMove(t *testing.T) {
	s := newStats()
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			from := SessionState("")
			for _, to := range append(SessionStates, Idle, Idle) {
				s.Move(from, to)
				from = to
			}
		})
	}
	all.Wait()
	for _, st := range SessionStates {
		if got, want := s.Sessions(st), map[SessionState]int64{Idle: 50}[st]; got != want {
			t.Errorf("%d sessions are %s, %d were due", got, st, want)
		}
	}
	s.Move(Idle, "")
	if got := s.Sessions(Idle); got != 49 {
		t.Errorf("%d sessions are idle after one has ended", got)
	}
}

func TestLabelled(t *testing.T) {
	c := NewLabelled(HoldOffline, HoldBusy)
	c.Inc(HoldBusy)
	c.Inc(HoldBusy)
	got := ""
	c.Each(func(l HoldReason, n uint64) { got += fmt.Sprintf("%s:%d ", l, n) })
	if want := "offline:0 busy:2 "; got != want {
		t.Errorf("counted %s, %s was due", got, want)
	}
	defer func() {
		if recover() == nil {
			t.Error("a label that was not declared was counted")
		}
	}()
	c.Inc(HoldAtCapacity)
}

// TestEveryLabelHasACounter, so that none of them can bring a session down.
func TestEveryLabelHasACounter(t *testing.T) {
	s, l := newStats(), newLive()
	for _, end := range ends {
		s.Failovers.Inc(end)
	}
	for _, p := range []Purpose{Initial, Handoff, Failover, Reroute, Predial} {
		l.LinksTotal.Inc(p)
	}
	for _, h := range []HoldReason{HoldOffline, HoldQuarantined, HoldAtCapacity, HoldBusy} {
		s.Holds.Inc(h)
		s.HoldCloses.Inc(h)
	}
	n := uint64(0)
	s.Failovers.Each(func(_ End, c uint64) { n += c })
	if n != uint64(len(ends)) {
		t.Errorf("%d of %d ends were counted", n, len(ends))
	}
}
