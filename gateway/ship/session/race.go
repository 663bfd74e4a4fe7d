package session

import (
	"context"
	"errors"
	"time"

	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship/dial"
	"flotilla/stages/forward"
)

const (
	// maxPicks is how many upstreams are tried for one connect or failover
	// (F15).
	maxPicks = 3
	// raceAfter is how long one of them may take before the next is tried
	// beside it: a node that is there answers much faster.
	raceAfter = 300 * time.Millisecond
)

// attempt is the outcome of one dial.
type attempt struct {
	link *link
	err  error
}

// race dials upstreams one after another, each as soon as the one before has
// failed or has not answered for a moment, and returns the first link that
// comes up. What is still being dialed then goes on until it is known whether
// that node is there. again tells that the dials were called off because a new
// request wants another upstream.
//
// pick takes a slot on an upstream and gives its index, or None; first tells
// that no dial is in progress.
func (s *Session) race(pick func(first bool) int) (won *link, again bool) {
	ctx, cancel := context.WithCancel(s.ended)
	s.mu.Lock()
	s.cancelDial = cancel
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.cancelDial = nil
		if won == nil {
			s.x.Current = pipeline.None
		}
	}()
	results := make(chan attempt, maxPicks)
	running, picked := 0, 0
	next := func() {
		if picked == maxPicks || ctx.Err() != nil {
			return
		}
		i := pick(running == 0)
		if i == pipeline.None {
			return
		}
		picked++
		running++
		// Not to be picked twice in one race.
		s.exclude(i, pipeline.Exclusion{Until: time.Now().Add(2 * s.Fleet.Config().ConnectTimeout())})
		s.racers.Go(func() {
			l, err := s.dial(ctx, i)
			if l != nil || ctx.Err() != nil {
				s.exclude(i, pipeline.Exclusion{})
			}
			results <- attempt{l, err}
		})
	}
	next()
	for running > 0 && won == nil {
		timer := time.NewTimer(raceAfter)
		select {
		case a := <-results:
			running--
			if won = a.link; won == nil {
				next()
			}
		case <-timer.C:
			next()
		}
		timer.Stop()
	}
	again = ctx.Err() != nil
	if running == 0 {
		cancel()
		return won, again
	}
	s.racers.Go(func() {
		defer cancel()
		for range running {
			if a := <-results; a.link != nil {
				s.discard(a.link)
			}
		}
	})
	return won, again
}

// discard closes a link that nobody needs, and gives its slot back.
func (s *Session) discard(l *link) {
	l.Node.Close()
	l.Reader.Release()
	s.Fleet.Release(l.upstream)
}

// dial is open for a link that is needed now: a live upstream that cannot be
// reached is offline for everyone (F14).
func (s *Session) dial(ctx context.Context, i int) (*link, error) {
	l, err := s.open(ctx, i)
	var failed *dial.Error
	if errors.As(err, &failed) && failed.Reason != dial.Busy && !s.Fleet.View().Upstreams[i].Frozen() {
		s.Fleet.MarkOffline(i, err.Error())
		// Until it is seen online again.
		s.exclude(i, pipeline.Exclusion{Until: time.Now().Add(forward.AvoidFailedDial), Down: true})
	}
	return l, err
}

// open connects to upstream i, whose slot is taken. When it fails, the slot is
// given back and the upstream avoided for a while.
func (s *Session) open(ctx context.Context, i int) (*link, error) {
	s.parted(ctx, i)
	u := &s.Fleet.View().Upstreams[i]
	node, err := s.Fleet.Open(ctx, u.Server.URL)
	if err == nil {
		s.Fleet.Reached(i)
		return newLink(node, i), nil
	}
	s.Fleet.Release(i)
	var failed *dial.Error
	if !errors.As(err, &failed) {
		return nil, err
	}
	u.Live.DialFailures.Inc(failed.Reason)
	u.Live.Errors.Add(time.Now())
	s.log().Warn("an upstream cannot be dialed", "server", u.Server.Name, "error", err)
	s.exclude(i, pipeline.Exclusion{Until: time.Now().Add(forward.AvoidFailedDial), Busy: failed.Reason == dial.Busy})
	return nil, err
}

func (s *Session) exclude(i int, e pipeline.Exclusion) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.x.Exclude(i, e)
}
