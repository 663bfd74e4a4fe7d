package pipeline_test

import (
	"log/slog"
	"testing"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/gateway/ship/dial"
)

var now = time.Unix(1_700_000_000, 0)

// TestPosition covers S8: which requests are empty, and which block an
// upstream is wanted for.
func TestPosition(t *testing.T) {
	for _, c := range []struct {
		name            string
		asked           bool
		start, end      uint32
		have            []uint32
		cursor          uint32
		empty, finished bool
		block           uint32
	}{
		{"no request", false, 0, 0, nil, 0, true, true, fleet.NoBlock},
		{"plain", true, 10, 20, nil, 10, false, false, 10},
		{"under way", true, 10, 20, nil, 15, false, false, 15},
		{"satisfied", true, 10, 20, nil, 20, false, true, 20},
		{"end at start", true, 10, 10, nil, 10, true, true, fleet.NoBlock},
		{"end below start", true, 10, 5, nil, 10, true, true, fleet.NoBlock},
		{"position at the end", true, 10, 5, []uint32{5}, 10, true, true, fleet.NoBlock},
		{"position between end and start", true, 10, 5, []uint32{7}, 10, true, true, fleet.NoBlock},
		{"position below both", true, 10, 5, []uint32{7, 4}, 10, false, true, 10},
		{"position below both, end at start", true, 10, 10, []uint32{9}, 10, false, true, 10},
		{"position above both", true, 10, 10, []uint32{11}, 10, true, true, fleet.NoBlock},
		{"to the last number", true, 10, 1<<32 - 1, nil, 1<<32 - 2, false, false, 1<<32 - 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := pipeline.Position{Asked: c.asked, Cursor: c.cursor, Want: ship.BlocksRequest{Start: c.start, End: c.end}}
			for _, n := range c.have {
				p.Want.Have = append(p.Want.Have, pos(n, 0))
			}
			if got := p.Empty(); got != c.empty {
				t.Errorf("Empty is %v, want %v", got, c.empty)
			}
			if got := p.Finished(); got != c.finished {
				t.Errorf("Finished is %v, want %v", got, c.finished)
			}
			if got := p.Block(); got != c.block {
				t.Errorf("Block is %d, want %d", got, c.block)
			}
		})
	}
}

// TestIdle covers the conditions of S11 one by one.
func TestIdle(t *testing.T) {
	// A finished range below LIB, with credit left: the one case besides an
	// unused link and a used-up credit.
	finished := pipeline.Link{Up: true, Requested: true, End: 20, Cursor: 20, Exact: true, LIB: 19, Head: 30}
	for _, c := range []struct {
		name   string
		before uint32
		change func(l *pipeline.Link)
		want   bool
	}{
		{"finished and irreversible", 5, func(*pipeline.Link) {}, true},
		{"LIB far above", 5, func(l *pipeline.Link) { l.LIB = 1000 }, true},
		{"LIB one too low", 5, func(l *pipeline.Link) { l.LIB = 18 }, false},
		{"not finished", 5, func(l *pipeline.Link) { l.Cursor = 19 }, false},
		{"uncertain cursor", 5, func(l *pipeline.Link) { l.Exact = false }, false},
		{"keep-alives seen", 5, func(l *pipeline.Link) { l.KeepAlives = true }, false},
		{"status v0 only", 5, func(l *pipeline.Link) { l.OnlyV0 = true }, false},
		{"to the last number", 5, func(l *pipeline.Link) { l.End, l.Cursor, l.LIB = 1<<32-1, 1<<32-1, 1<<32-1 }, true},
		{"no credit before", 0, func(l *pipeline.Link) { l.Cursor, l.Exact, l.KeepAlives = 12, false, true }, true},
		{"no request on it", 5, func(l *pipeline.Link) { *l = pipeline.Link{Up: true, KeepAlives: true} }, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := finished
			c.change(&l)
			if got := l.Idle(c.before); got != c.want {
				t.Errorf("Idle is %v, want %v", got, c.want)
			}
		})
	}
}

func TestExclude(t *testing.T) {
	x := &pipeline.Exchange{View: &fleet.View{Upstreams: []fleet.Upstream{node("a"), node("b"), node("c")}}}
	if x.Excluded(1, now) {
		t.Error("excluded before anything was")
	}
	x.Exclude(1, pipeline.Exclusion{Until: now.Add(time.Second)})
	for _, c := range []struct {
		index int
		after time.Duration
		want  bool
	}{
		{1, 0, true}, {1, time.Second - 1, true}, {1, time.Second, false}, {0, 0, false}, {2, 0, false},
	} {
		if got := x.Excluded(c.index, now.Add(c.after)); got != c.want {
			t.Errorf("upstream %d after %v: excluded is %v, want %v", c.index, c.after, got, c.want)
		}
	}
	x.Exclude(1, pipeline.Exclusion{})
	if x.Excluded(1, now) {
		t.Error("an exclusion that was lifted is still there")
	}
}

// A node that was found down is left out for as long as the monitor agrees.
func TestExcludeDown(t *testing.T) {
	x := &pipeline.Exchange{View: &fleet.View{Upstreams: []fleet.Upstream{node("a")}}}
	u := &x.View.Upstreams[0]
	x.Exclude(0, pipeline.Exclusion{Until: now.Add(time.Second), Down: true})
	for _, c := range []struct {
		online bool
		after  time.Duration
		want   bool
	}{
		{false, 0, true}, {true, 0, false}, {false, time.Second, false},
	} {
		u.Online = c.online
		if got := x.Excluded(0, now.Add(c.after)); got != c.want {
			t.Errorf("online %v, after %v: excluded is %v, want %v", c.online, c.after, got, c.want)
		}
	}
}

// node is an online live node with both logs from block 1 on.
func node(name string) fleet.Upstream {
	s := &config.Server{Name: name, Endpoint: name, URL: "ws://" + name, Enabled: true, Role: config.Live, Weight: 1}
	f := fleet.New(&config.Listener{Servers: []*config.Server{s}}, &dial.Dialer{}, slog.New(slog.DiscardHandler))
	u := f.View().Upstreams[0]
	u.Online, u.Known = true, true
	u.Trace, u.ChainState = ship.Range{Begin: 1, End: 101}, ship.Range{Begin: 1, End: 101}
	return u
}

// TestElsewhere covers S29: each reason for which the other upstream could not
// serve the cursor.
func TestElsewhere(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(x *pipeline.Exchange, other *fleet.Upstream)
		want   bool
	}{
		{"it can", func(*pipeline.Exchange, *fleet.Upstream) {}, true},
		{"disabled", func(_ *pipeline.Exchange, u *fleet.Upstream) { u.Disabled = true }, false},
		{"offline", func(_ *pipeline.Exchange, u *fleet.Upstream) { u.Online = false }, false},
		{"unknown", func(_ *pipeline.Exchange, u *fleet.Upstream) { u.Known = false }, false},
		{"begins above", func(_ *pipeline.Exchange, u *fleet.Upstream) { u.Trace.Begin, u.ChainState.Begin = 51, 51 }, false},
		{"a log begins above that is not asked for", func(_ *pipeline.Exchange, u *fleet.Upstream) { u.ChainState.Begin = 51 }, true},
		{"begins at it", func(_ *pipeline.Exchange, u *fleet.Upstream) { u.Trace.Begin, u.ChainState.Begin = 50, 50 }, true},
		{"quarantined at it", func(_ *pipeline.Exchange, u *fleet.Upstream) {
			u.Quarantines = []fleet.Quarantine{{Block: 50, Range: 1, Until: now.Add(time.Second)}}
		}, false},
		{"does not know the request", func(x *pipeline.Exchange, u *fleet.Upstream) {
			x.Want.V1 = true
			u.ABI = &ship.ABI{Requests: []string{"get_status_request_v0", "get_blocks_request_v0"}}
		}, false},
		{"excluded", func(x *pipeline.Exchange, _ *fleet.Upstream) {
			x.Exclude(1, pipeline.Exclusion{Until: now.Add(time.Second)})
		}, false},
		{"no longer excluded", func(x *pipeline.Exchange, _ *fleet.Upstream) { x.Exclude(1, pipeline.Exclusion{Until: now}) }, true},
		{"free slot", func(_ *pipeline.Exchange, u *fleet.Upstream) { u.Server.MaxSessions = 1 }, true},
		{"full", func(_ *pipeline.Exchange, u *fleet.Upstream) {
			u.Server.MaxSessions = 1
			reserve(u)
		}, false},
		{"only its own", func(x *pipeline.Exchange, _ *fleet.Upstream) { x.Link.Upstream = 1; x.View.Upstreams[0].Online = false }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := &pipeline.Exchange{Now: now, View: &fleet.View{Upstreams: []fleet.Upstream{node("a"), node("b")}}}
			x.Cursor, x.Want = 50, ship.BlocksRequest{FetchTraces: true}
			c.change(x, &x.View.Upstreams[1])
			if got := x.Elsewhere(); got != c.want {
				t.Errorf("Elsewhere is %v, want %v", got, c.want)
			}
		})
	}
}

// TestMovable covers F20: with an unfinished request another upstream has to
// have its blocks, otherwise it only has to be there.
func TestMovable(t *testing.T) {
	covers := func(u *fleet.Upstream) { u.Trace.Begin, u.ChainState.Begin = 1, 1 }
	lacks := func(u *fleet.Upstream) { u.Trace.Begin, u.ChainState.Begin = 51, 51 }
	gone := func(u *fleet.Upstream) { u.Online = false }
	for _, c := range []struct {
		name   string
		asked  bool
		cursor uint32
		other  func(u *fleet.Upstream)
		want   bool
	}{
		{"under way, it has the block", true, 50, covers, true},
		{"under way, it lacks the block", true, 50, lacks, false},
		{"under way, it is gone", true, 50, gone, false},
		{"satisfied, it lacks the block", true, 60, lacks, true},
		{"satisfied, it is gone", true, 60, gone, false},
		{"no request, it lacks the block", false, 0, lacks, true},
		{"no request, it is gone", false, 0, gone, false},
	} {
		x := &pipeline.Exchange{Now: now, View: &fleet.View{Upstreams: []fleet.Upstream{node("a"), node("b")}}}
		x.Asked, x.Cursor, x.Want = c.asked, c.cursor, ship.BlocksRequest{Start: 40, End: 60, FetchTraces: true}
		c.other(&x.View.Upstreams[1])
		if got := x.Movable(); got != c.want {
			t.Errorf("%s: Movable is %v, want %v", c.name, got, c.want)
		}
	}
}

// reserve gives u counters with one slot taken.
func reserve(u *fleet.Upstream) {
	f := fleet.New(&config.Listener{Servers: []*config.Server{u.Server}}, &dial.Dialer{}, slog.New(slog.DiscardHandler))
	f.Reserve(func() int { return 0 })
	u.Live = f.View().Upstreams[0].Live
}
