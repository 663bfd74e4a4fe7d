package stitched_test

import (
	"fmt"
	"time"

	"pgregory.net/rapid"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages"
	"flotilla/stages/forward"
)

// rules are those that a session goes by, so that a test can put a wrong one in
// the place of one of them.
type rules struct {
	registry pipeline.Registry
	build    func(x *pipeline.Exchange) ship.BlocksRequest
	ended    func(x *pipeline.Exchange, end fleet.End, owed bool) forward.Consequence
	without  func(x *pipeline.Exchange, r *pipeline.Result) bool
}

func theRules() *rules {
	return &rules{registry: stages.Registry(), build: forward.Build, ended: forward.Ended, without: forward.WithoutBlock}
}

// session carries messages, links and time between a client, the stages and the
// servers. It decides nothing that a stage does.
type session struct {
	*world
	rules  *rules
	pipe   *pipeline.Pipeline
	x      *pipeline.Exchange
	client *client
	seen   *events

	conn *conn
	// seam: the next request goes on where another one ended.
	seam  bool
	pause time.Time
	clock forward.Clock
	// kept is when a link on which nothing is to come is given up.
	kept time.Time
	hold holding
	// moves and nextMove are those off archives without a block log (P20).
	moves    int
	nextMove time.Time
	// again is when to plan again at the latest.
	again time.Time
	// closed is why the client was closed.
	closed string
	// good are the servers that could have served the block at every plan since
	// the first strike at it.
	good map[int]bool
	log  []string
}

// holding is a hold in progress.
type holding struct {
	active          bool
	since, retry    time.Time
	tries           int
	desperate, last bool
}

// events counts what came to pass, so that the test knows that it tested it.
type events struct {
	Results, Forks, Dropped, Filled, Idless, Bare, SameLink, Handoffs, Failovers, Strikes, Holds, Waits, Desperate, Moves, Reused int
	Violations                                                                                                                    map[fleet.Violation]int
	Closed                                                                                                                        map[string]int
}

func newSession(t *rapid.T, r *rules, seen *events) *session {
	w := newWorld(t)
	pipe, err := pipeline.Build(r.registry, stages.Up, stages.Down, w.cfg)
	if err != nil {
		t.Fatal(err)
	}
	s := &session{world: w, rules: r, pipe: pipe, client: &client{}, seen: seen, x: &pipeline.Exchange{Session: 1, Stitched: true}}
	s.x.Current, s.x.Pick, s.x.Soft, s.x.Retained, s.x.Standby = pipeline.None, pipeline.None, pipeline.None, pipeline.None, pipeline.None
	s.x.Link.Upstream = pipeline.None
	s.refresh()
	return s
}

// note keeps what happened for the report of a failure.
func (s *session) note(format string, args ...any) {
	s.log = append(s.log, fmt.Sprintf("%7.1fs ", s.now.Sub(time.Unix(1_700_000_000, 0)).Seconds())+fmt.Sprintf(format, args...))
}

func (s *session) refresh() { s.x.View, s.x.Tip, s.x.Now = s.view, s.tip, s.now }

func (s *session) plan(desperate bool) {
	s.refresh()
	s.x.Cause, s.x.Desperate = pipeline.Replace, desperate
	s.pipe.Up(s.x)
}

// message takes a message of the client through the stages.
func (s *session) message(t *rapid.T, m []byte) {
	s.refresh()
	s.x.Cause, s.x.Message = pipeline.Received, m
	if step := s.pipe.Up(s.x); step != (pipeline.Step{}) {
		t.Fatalf("a message of the client ends with %+v", step)
	}
}

// ask is a request of the client.
func (s *session) ask(t *rapid.T, q *ship.BlocksRequest) {
	if s.closed != "" {
		return
	}
	s.note("the client asks %+v", *q)
	s.client.ask(q, s.x.Settled)
	s.message(t, ship.AppendRequest(nil, q))
	s.seam, s.hold, s.good, s.again = false, holding{}, nil, time.Time{}
	switch {
	case s.conn == nil:
	case s.x.Relink == pipeline.Redial:
		s.disconnect()
	default:
		s.seen.Reused++
		s.resume(t)
	}
}

func (s *session) ack(t *rapid.T, n uint32) {
	if s.closed == "" {
		s.client.granted += n
		s.message(t, ship.AppendAck(nil, n))
	}
}

// step does the next thing that is to be done now. It reports false when there
// is none.
func (s *session) step(t *rapid.T) bool {
	defer s.check(t)
	switch {
	case s.closed != "":
		return false
	case s.conn == nil:
		return !s.now.Before(s.pause) && s.find(t)
	case s.relay(t), s.conn != nil && s.conn.arrive(), s.conn != nil && s.conn.produce():
		return true
	case s.conn == nil:
		return true
	case s.conn.dead:
		s.lose(t, fleet.EndUnclean)
		return true
	case forward.AckDue(s.x):
		s.flush()
		return true
	case s.over():
		return s.resume(t)
	case s.x.Want.FetchBlock && s.x.Link.Frozen && s.view.Upstreams[s.conn.index].NoBlockLog && s.blocksElsewhere():
		s.lose(t, fleet.EndNoBlockLog)
		return true
	}
	return s.silent(t)
}

// find plans a leg while there is no link.
func (s *session) find(t *rapid.T) bool {
	if s.hold.active && !s.hold.retry.IsZero() && !s.now.Before(s.hold.retry) {
		s.hold.tries++
		s.hold.desperate = true
		s.hold.retry = time.Time{}
	}
	desperate := s.hold.desperate
	s.plan(desperate)
	s.hold.desperate = false
	s.again = s.x.Plan.Again
	s.narrow()
	switch s.x.Plan.Do {
	case pipeline.Serve:
		if desperate {
			s.seen.Desperate++
		}
		s.dial(t, s.x.Pick)
		return true
	case pipeline.Gap:
		s.close(t, "gap")
		return true
	case pipeline.Hold:
		return s.holdOn(t)
	case pipeline.Wait:
		s.seen.Waits++
	}
	s.hold = holding{}
	return false
}

// holdOn begins or goes on with a hold (P14, P15).
func (s *session) holdOn(t *rapid.T) bool {
	h := &s.hold
	if !h.active {
		s.seen.Holds++
		s.note("held: %+v", s.x.Plan)
		h.active, h.since = true, s.now
	}
	if s.x.Plan.Bounded && s.now.Sub(h.since) >= s.cfg.Stitching.GapWait {
		if h.last {
			s.close(t, "hold")
			return true
		}
		h.last, h.desperate = true, true
		return true
	}
	if h.retry.IsZero() {
		h.retry = s.now.Add(forward.HoldPause(s.x.Session, h.tries))
	}
	return false
}

// dial connects to a server and begins the leg on it.
func (s *session) dial(t *rapid.T, i int) {
	if i == pipeline.None {
		t.Fatalf("there is a plan to serve, and nobody is picked")
	}
	if s.slots.Reserve(func() int { return i }) != i {
		t.Fatalf("server %d is picked and full", i)
	}
	v := s.servers[i]
	if v.down || v.hung || v.busy {
		s.note("server %d cannot be dialed", i)
		s.slots.Release(i)
		s.x.Exclude(i, pipeline.Exclusion{Until: s.now.Add(forward.AvoidFailedDial), Down: !v.busy && !v.frozen, Busy: v.busy})
		if !v.busy {
			s.offline(i)
		}
		return
	}
	s.note("a link to server %d for block %d up to %d of %+v", i, s.x.Cursor, s.x.LegEnd, s.x.Candidates)
	s.conn = &conn{server: v}
	s.x.Current = i
	s.x.Link = pipeline.Link{Up: true, Upstream: i, Frozen: v.frozen}
	s.send()
}

// send sends the request of a leg on the link.
func (s *session) send() {
	q := s.rules.build(s.x)
	s.conn.up = append(s.conn.up, upward{request: &q})
	s.note("request %+v, fresh %v", q, s.x.Fresh)
	forward.Sent(s.x, &q, s.seam)
	s.client.served, s.client.begin, s.client.gate = s.view.Upstreams, q.Start, s.tip.LIB.Num
	s.clock = forward.Clock{Byte: s.now, Data: s.now, Progress: s.now, Frozen: s.conn.frozen}
	s.seam, s.hold, s.kept = true, holding{}, time.Time{}
}

// over reports whether nothing of the link's request is to come.
func (s *session) over() bool {
	l := &s.x.Link
	return !l.Requested || l.Exact && l.Cursor >= l.End
}

// resume plans on while there is a link on which nothing is to come: the next leg
// begins on it, or it is kept for a while, or given up (P9 to P12).
func (s *session) resume(t *rapid.T) bool {
	s.plan(false)
	s.again = s.x.Plan.Again
	do := s.x.Plan.Do
	if s.x.Link.Requested && s.x.Finished() {
		// Also one that is for a node at the tip to rewind, once it was sent.
		do = pipeline.Rest
	}
	switch {
	case do == pipeline.Serve && s.x.Pick == s.conn.index && s.x.Link.Free():
		s.seen.SameLink++
		s.note("the next leg is on the same link, up to %d", s.x.LegEnd)
		s.send()
		return true
	case do == pipeline.Rest, do == pipeline.Wait && s.x.Link.Free():
		if s.kept.IsZero() {
			s.kept = s.now.Add(30 * time.Second)
		}
		if !s.conn.frozen || s.now.Before(s.kept) {
			return false
		}
	case do == pipeline.Serve:
		s.seen.Handoffs++
	}
	s.disconnect()
	return true
}

// disconnect gives the link up.
func (s *session) disconnect() {
	s.slots.Release(s.conn.index)
	s.conn = nil
	s.x.Link = pipeline.Link{Upstream: pipeline.None}
	s.x.Ack = 0
	s.x.Current = pipeline.None
}

// lose takes in that the link has ended.
func (s *session) lose(t *rapid.T, end fleet.End) {
	i := s.conn.index
	s.refresh()
	c := s.rules.ended(s.x, end, forward.Owed(s.x))
	s.note("server %d: %s at block %d, %+v", i, end, s.x.Cursor, c)
	s.seen.Failovers++
	s.disconnect()
	s.seam = true
	s.pause = s.now.Add(c.Pause)
	if c.Strike {
		s.seen.Strikes++
		if len(s.x.Failed) == 1 {
			s.good = s.couldServe()
		}
		delete(s.good, i)
		s.blame(i, s.x.Cursor)
	}
	if c.Suspect {
		s.blame(i, s.x.Cursor)
	}
	if c.Dead {
		s.offline(i)
	}
	if c.Exhausted {
		s.close(t, "budget")
	}
}

// flush acks what is to be acked.
func (s *session) flush() {
	s.conn.up = append(s.conn.up, upward{ack: s.x.Ack})
	s.x.Ack = 0
}

// relay takes the next result down through the stages.
func (s *session) relay(t *rapid.T) bool {
	c := s.conn
	if c == nil || len(c.down) == 0 {
		return false
	}
	r := c.down[0]
	c.down = c.down[1:]
	s.observe(c.index, r.Head, r.LIB)
	s.refresh()
	s.clock.Byte, s.clock.Data, s.clock.Progress, s.clock.Ping = s.now, s.now, s.now, time.Time{}
	if s.withoutBlock(r) {
		s.lose(t, fleet.EndNoBlockLog)
		return true
	}
	fresh := s.x.Fresh
	switch step := s.pipe.Down(s.x, r); step.Do {
	case pipeline.Done:
		if s.x.Link.Requested {
			s.seen.Dropped++
		}
	case pipeline.EndLink:
		if r.Violation != "" {
			s.seen.Violations[r.Violation]++
		}
		s.note("server %d sends block %d: %q", c.index, r.Num, r.Violation)
		s.lose(t, step.End())
	case pipeline.Next:
		s.client.take(t, s, c.server, r)
		if r.Broken {
			if !fresh {
				t.Fatalf("block %d does not continue what the request has brought", r.Num)
			}
			forward.Lift(s.x)
		}
	default:
		t.Fatalf("block %d ends with %+v", r.Num, step)
	}
	return true
}

// withoutBlock deals with a result of an archive that lacks the block (P20).
func (s *session) withoutBlock(r *pipeline.Result) (leaves bool) {
	i := s.conn.index
	switch {
	case !s.rules.without(s.x, r):
		if r.Parts.Block {
			s.moves = 0
		}
	case !s.known[i].NoBlockLog:
		s.known[i].NoBlockLog = true
		s.publish()
		return s.blocksElsewhere()
	}
	return false
}

// blocksElsewhere reports whether the session moves to another upstream that has
// blocks: the first time at once, later after a growing pause.
func (s *session) blocksElsewhere() bool {
	if s.moves > 0 && s.now.Before(s.nextMove) {
		return false
	}
	s.plan(false)
	if s.x.Plan.Do != pipeline.Serve || s.x.Pick == s.conn.index || s.view.Upstreams[s.x.Pick].NoBlockLog {
		return false
	}
	s.nextMove = s.now.Add(min(time.Second<<min(s.moves, 6), time.Minute))
	s.moves++
	s.seen.Moves++
	return true
}

// silent judges how long the link has been silent.
func (s *session) silent(t *rapid.T) bool {
	s.refresh()
	c := &s.clock
	if !s.conn.hung {
		c.Byte, c.Ping = s.now, time.Time{}
	}
	switch online := s.view.Upstreams[s.conn.index].Online; {
	case online:
		c.Lost = time.Time{}
	case c.Lost.IsZero():
		c.Lost = s.now
	}
	v := forward.Silence(s.cfg, s.now, c, forward.Owed(s.x), s.x.Elsewhere)
	if v.End != "" {
		s.lose(t, v.End)
		return true
	}
	if v.Ping {
		c.Ping = s.now
		return true
	}
	s.again = v.Again
	return false
}

// close ends the client, which has to be right.
func (s *session) close(t *rapid.T, why string) {
	s.note("the client is closed: %s at block %d", why, s.x.Cursor)
	s.seen.Closed[why]++
	s.closed = why
	s.mayClose(t, why)
	if s.conn != nil {
		s.disconnect()
	}
}

// monitoring is how often the servers are asked for their status.
const monitoring = 10 * time.Second

// pass lets time go by, with all that is to be done meanwhile. It returns when
// nothing moves any more, or the time is over.
func (s *session) pass(t *rapid.T, d time.Duration, idle func() bool) {
	end := s.now.Add(d)
	for {
		for n := 0; s.step(t) || idle(); n++ {
			if n > 2000 {
				t.Fatalf("the session does not come to rest at block %d", s.x.Cursor)
			}
		}
		next := s.next()
		if s.closed != "" || next.After(end) {
			s.now = end
			return
		}
		s.now = next
		if s.now.Sub(s.polled) >= monitoring {
			s.polled = s.now
			s.poll(s.servers...)
		}
	}
}

// next is when there is something to do at the latest.
func (s *session) next() time.Time {
	next := s.now.Add(5 * time.Second)
	for _, at := range []time.Time{s.pause, s.hold.retry, s.again, s.nextMove, s.polled.Add(monitoring)} {
		if at.After(s.now) && at.Before(next) {
			next = at
		}
	}
	return next
}
