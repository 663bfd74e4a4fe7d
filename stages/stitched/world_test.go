package stitched_test

import (
	"log/slog"
	"slices"
	"time"

	"pgregory.net/rapid"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/ship"
	"flotilla/gateway/ship/dial"
	"flotilla/stages/stagetest"
)

// base is the LIB that the chain has at first: what is below never forks, and
// archives hold no more than that.
const base = 40

// world is the servers as they are, and what the gateway knows of them.
type world struct {
	chain
	cfg     *config.Listener
	servers []*server
	now     time.Time

	// slots counts the links to the servers, those of other sessions too.
	slots *fleet.Fleet
	// known is what the monitors have found out; view is what was published of
	// it, and tip what follows from it and from results.
	known []fleet.Upstream
	view  *fleet.View
	tip   *fleet.Pair
	// told is the highest that each server has told of since it came online.
	told []fleet.Pair
	// remade: the ranges have changed since the view was made.
	remade bool
	polled time.Time
	// strikes are those that count towards a quarantine.
	strikes map[strike]int
}

type strike struct {
	server int
	block  uint32
}

func newWorld(t *rapid.T) *world {
	w := &world{chain: chain{forks: []uint32{0}}, now: stagetest.Exchange().Now, tip: &fleet.Pair{}, strikes: map[strike]int{}}
	w.cfg = &config.Listener{
		Topology:     config.TopologyStitched,
		StallTimeout: 60 * time.Second, LivenessTimeout: 4 * time.Second,
		LiveLagBlocks: rapid.SampledFrom([]uint32{0, 4}).Draw(t, "lag"),
		Stitching: config.Stitching{
			HistoryPreference: rapid.SampledFrom([]string{"frozen", "any"}).Draw(t, "preference"),
			PatchHeadLIB:      !rarely(t, "no patch", 9), GapWait: 30 * time.Second, ABIMismatch: "warn",
		},
	}
	if rarely(t, "quarantine", 2) {
		w.cfg.Quarantine = &config.Quarantine{Strikes: 2, TTL: 600 * time.Second, Range: between(t, "range", 1, 3)}
	}
	w.addArchives(t)
	w.addLive(t)
	if len(w.servers) == 0 {
		w.addArchive(t, ship.Range{Begin: 1, End: base + 1})
	}
	w.start(t)
	return w
}

// addArchives adds some, one range after another: they touch, overlap or leave a
// hole, and have replicas.
func (w *world) addArchives(t *rapid.T) {
	begin := rapid.SampledFrom([]uint32{1, 1, 5}).Draw(t, "first")
	for range between(t, "ranges", 0, 4) {
		r := ship.Range{Begin: begin, End: min(begin+between(t, "length", 1, 20), base+1)}
		if r.Empty() {
			return
		}
		for range rapid.SampledFrom([]int{1, 1, 2}).Draw(t, "replicas") {
			w.addArchive(t, r)
		}
		switch between(t, "seam", 0, 9) {
		case 0: // a hole, now and then
			begin = r.End + between(t, "hole", 1, 3)
		case 1, 2, 3: // an overlap
			begin = max(r.Begin, r.End-min(r.End, between(t, "overlap", 1, 6)))
		default:
			begin = r.End
		}
	}
}

func (w *world) addArchive(t *rapid.T, r ship.Range) *server {
	s := &server{chain: &w.chain, index: len(w.servers), frozen: true, blocks: !rarely(t, "no block log", 5), damaged: map[uint32]damage{}}
	s.logs[fleet.Trace], s.logs[fleet.ChainState] = r, r
	if rarely(t, "logs differ", 3) {
		for _, l := range fleet.Logs {
			s.logs[l] = part(t, r)
		}
	}
	for _, l := range s.logs {
		s.head = max(s.head, l.End)
	}
	if s.head == 0 {
		s.logs[fleet.Trace], s.head = r, r.End
	}
	s.head--
	s.lib = s.head
	w.servers = append(w.servers, s)
	return s
}

// part is a part of a range: all of it, none, or that from or up to a block.
func part(t *rapid.T, r ship.Range) ship.Range {
	switch between(t, "part", 0, 5) {
	case 0:
		return ship.Range{}
	case 1:
		r.Begin = between(t, "begin", r.Begin, r.End-1)
	case 2:
		r.End = between(t, "end", r.Begin+1, r.End)
	}
	return r
}

func (w *world) addLive(t *rapid.T) {
	for range rapid.SampledFrom([]int{0, 1, 2, 2, 3}).Draw(t, "live") {
		s := &server{chain: &w.chain, index: len(w.servers), blocks: true, damaged: map[uint32]damage{}}
		s.head = between(t, "head", base, base+8)
		s.lib = between(t, "lib", base-5, min(s.head, base))
		w.cutOver(t, s)
		w.servers = append(w.servers, s)
	}
}

// cutOver gives a live node other first blocks: those of a snapshot, from which
// on it has the chain state, and all else from the next block on.
func (w *world) cutOver(t *rapid.T, s *server) {
	snapshot := rapid.SampledFrom([]uint32{0, 10, 30, base}).Draw(t, "snapshot")
	s.logs[fleet.ChainState] = ship.Range{Begin: max(snapshot, 1), End: 1}
	s.logs[fleet.Trace] = ship.Range{Begin: snapshot + 1, End: 1}
	s.logs[fleet.Finality] = ship.Range{}
	switch between(t, "logs", 0, 7) {
	case 0:
		s.logs[fleet.ChainState] = ship.Range{}
	case 1:
		s.logs[fleet.Trace] = ship.Range{}
	}
	if rarely(t, "finality", 3) {
		s.logs[fleet.Finality] = ship.Range{Begin: between(t, "from", snapshot+1, base+5), End: 1}
	}
}

// start makes the gateway's side: most servers have reported, some not yet.
func (w *world) start(t *rapid.T) {
	limits := &config.Listener{}
	for i, s := range w.servers {
		name := string(rune('a' + i))
		c := &config.Server{Name: name, Endpoint: name, URL: "ws://" + name, Enabled: true, Role: config.Live, Weight: 1,
			MaxSessions: rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(t, "max_sessions"), Priority: rapid.SampledFrom([]uint32{0, 0, 0, 1}).Draw(t, "priority")}
		if s.frozen {
			c.Role = config.Frozen
		}
		limits.Servers = append(limits.Servers, c)
	}
	w.slots = fleet.New(limits, &dial.Dialer{}, slog.New(slog.DiscardHandler))
	w.told = make([]fleet.Pair, len(w.servers))
	for i, s := range w.servers {
		u := fleet.Upstream{Server: limits.Servers[i], Live: w.slots.View().Upstreams[i].Live}
		u.Stale = !s.frozen && rarely(t, "stale", 4)
		w.known = append(w.known, u)
		switch {
		case rarely(t, "not reported", 25):
			if s.frozen && rapid.Bool().Draw(t, "declared") {
				w.known[i].Known, w.known[i].Trace, w.known[i].ChainState = true, s.logs[fleet.Trace], s.logs[fleet.ChainState]
			}
		default:
			w.report(i)
		}
	}
	w.remade = true
	w.publish()
}

// poll is what the monitors of these servers find out now. One that has hung
// answers nothing.
func (w *world) poll(servers ...*server) {
	for _, s := range servers {
		if s.down || s.hung {
			w.known[s.index].Online = false
		} else {
			w.report(s.index)
		}
	}
	w.publish()
}

// report takes in a status of the server.
func (w *world) report(i int) {
	s, u := w.servers[i], &w.known[i]
	was := *u
	u.Online, u.Known, u.Reported, u.StatusV1 = true, true, true, true
	u.Head, u.LIB = w.at(s.version, s.head), w.at(s.version, s.lib)
	for l, r := range [...]*ship.Range{fleet.Trace: &u.Trace, fleet.ChainState: &u.ChainState, fleet.Finality: &u.Finality} {
		if *r = s.logs[l]; !s.frozen && r.End > 0 {
			r.End = max(s.head+1, r.Begin)
		}
	}
	if !was.Online {
		u.NoBlockLog, w.told[i] = false, fleet.Pair{}
	}
	w.told[i] = fleet.Pair{Head: higher(w.told[i].Head, u.Head), LIB: higher(w.told[i].LIB, u.LIB)}
	w.remade = w.remade || !was.Known || was.Trace.Begin != u.Trace.Begin || was.ChainState.Begin != u.ChainState.Begin || was.Finality != u.Finality
}

// publish makes a view of what is known.
func (w *world) publish() {
	for i := range w.known {
		if len(w.known[i].Quarantines) == 0 {
			continue
		}
		q := slices.Clone(w.known[i].Quarantines)
		w.known[i].Quarantines = slices.DeleteFunc(q, func(q fleet.Quarantine) bool { return !w.now.Before(q.Until) })
	}
	if w.remade {
		w.view, w.remade = fleet.NewView(w.cfg, w.known), false
		w.view.Lag = w.cfg.LiveLagBlocks
	} else {
		v := *w.view
		v.Upstreams = slices.Clone(w.known)
		w.view = &v
	}
	w.renewTip()
}

// renewTip takes head and LIB from the anchors (M10 to M12).
func (w *world) renewTip() {
	var p fleet.Pair
	live := false
	for i := range w.known {
		u := &w.known[i]
		live = live || !u.Frozen()
		if w.anchored(i) {
			p.Head, p.LIB = higher(p.Head, w.told[i].Head), higher(p.LIB, w.told[i].LIB)
		}
	}
	if !live {
		for i := range w.known {
			if u := &w.known[i]; u.Reported && u.Routable() {
				p.Head, p.LIB = higher(p.Head, u.Head), higher(p.LIB, u.Head)
			}
		}
	}
	if p.Head.Num > 0 {
		w.tell(p)
	}
}

// anchored reports whether the fleet's tip is taken from a server.
func (w *world) anchored(i int) bool {
	anchor := func(u *fleet.Upstream) bool { return u.Online && u.Routable() && !u.Frozen() }
	if u := &w.known[i]; !anchor(u) || !u.Stale {
		return anchor(u)
	}
	for i := range w.known {
		if anchor(&w.known[i]) && !w.known[i].Stale {
			return false
		}
	}
	return true
}

// tell makes p the tip; LIB never goes back.
func (w *world) tell(p fleet.Pair) {
	if p.LIB = higher(p.LIB, w.tip.LIB); p.LIB.Num > p.Head.Num {
		p.LIB = p.Head
	}
	w.tip = &p
}

// observe takes in the head and LIB of a result.
func (w *world) observe(i int, head, lib ship.Pos) {
	if w.servers[i].frozen {
		return
	}
	w.told[i] = fleet.Pair{Head: higher(w.told[i].Head, head), LIB: higher(w.told[i].LIB, lib)}
	if w.anchored(i) && (head.Num > w.tip.Head.Num || lib.Num > w.tip.LIB.Num) {
		w.tell(fleet.Pair{Head: higher(w.tip.Head, head), LIB: lib})
	}
}

func higher(a, b ship.Pos) ship.Pos {
	if b.Num > a.Num {
		return b
	}
	return a
}

// blame counts a strike, or a suspicion, towards a quarantine (F11).
func (w *world) blame(i int, n uint32) {
	q := w.cfg.Quarantine
	if q == nil || w.known[i].Quarantined(n, w.now) {
		return
	}
	if w.strikes[strike{i, n}]++; w.strikes[strike{i, n}] < int(q.Strikes) {
		return
	}
	delete(w.strikes, strike{i, n})
	w.known[i].Quarantines = append(slices.Clone(w.known[i].Quarantines), fleet.Quarantine{Block: n, Range: q.Range, Until: w.now.Add(q.TTL)})
	w.publish()
}

// offline is told by the session that a live node is dead.
func (w *world) offline(i int) {
	if !w.servers[i].frozen {
		w.known[i].Online = false
		w.publish()
	}
}

// highest are the head and the LIB that any live node has.
func (w *world) highest() (head, lib uint32) {
	head, lib = base, base
	for _, s := range w.servers {
		if !s.frozen {
			head, lib = max(head, s.head), max(lib, s.lib)
		}
	}
	return head, lib
}

// final is the highest block that may be irreversible: no live node has anything
// else in its place.
func (w *world) final() uint32 {
	limit := uint32(1<<32 - 1)
	for _, s := range w.servers {
		if f := w.differ(s.version, w.latest()); !s.frozen && s.head >= f {
			limit = min(limit, f-1)
		}
	}
	return limit
}

// rarely is true once in n+1 times.
func rarely(t *rapid.T, what string, n int) bool { return between(t, what, 0, uint32(n)) == uint32(n) }

// numbers are those that between draws from: rapid's own ranges are mostly about
// their low end.
var numbers = func() (all [1024]uint32) {
	for i := range all {
		all[i] = uint32(i)
	}
	return all
}()

// between is one of the numbers from low to high, each as likely as the others.
func between(t *rapid.T, what string, low, high uint32) uint32 {
	if high < low {
		high = low
	}
	return low + rapid.SampledFrom(numbers[:high-low+1]).Draw(t, what)
}
