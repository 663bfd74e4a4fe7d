package plan

import (
	"slices"
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
)

// The keys of Candidate.Rank in a range-split fleet (spec "ship" 3.3), the
// weightiest first. Where they are all equal the policy decides.
const (
	rankOffline = 1 << (8 - iota)
	// rankGivenUp: it was asked for this block twice, in vain, so anybody else
	// comes first, whatever else speaks against him (9.1.1).
	rankGivenUp
	// rankKin: two of its kind were, be it archives or nodes at the tip. Archives
	// of one range often are copies of one log, its damage included, so the other
	// kind comes first.
	rankKin
	// rankFull goes before rankStale: a node that is there beats waiting for a
	// better one (9.1.8).
	rankFull
	rankStale
	rankNoBlockLog
	// rankSoft goes before rankRole: an archive that has just failed yields to a
	// live node that has the block.
	rankSoft
	// rankRole: history_preference "frozen" reads from archives what they have.
	rankRole
	// rankGated is the lightest: a block that an archive has is waited for, not
	// asked of a node at the tip, which has it no sooner (P5).
	rankGated

	// unranked is above every rank.
	unranked = rankOffline << 1
)

// givenUp is how many times in vain at one block rank an upstream, or a kind of
// upstreams, behind all others.
const givenUp = 2

// stitched plans the next leg of a session in front of a range-split fleet: it
// sets Exchange.Plan and, when that is Serve, Exchange.Candidates (P1 to P8).
func stitched(x *pipeline.Exchange) {
	x.Plan = pipeline.Plan{}
	p := newPlanner(x)
	if !p.wanted() {
		x.Plan.Do = pipeline.Rest
		return
	}
	switch place := x.View.Place(p.n); {
	case place == fleet.Unheard || place == fleet.Beyond:
		x.Plan.Do = pipeline.Wait
		return
	case place == fleet.Covered:
	case x.View.Unreported() > 0:
		// An archive that has not answered yet may have it.
		x.Plan = pipeline.Plan{Do: pipeline.Hold, Why: fleet.HoldOffline, Bounded: true}
		return
	case place == fleet.Hole:
		x.Plan.Do = pipeline.Gap
		return
	}
	x.View.Holders(p.n, p.need, func(h fleet.Holder) bool {
		p.consider(h)
		return true
	})
	p.decide()
}

// Leg is where a leg on upstream i would end, exclusive, that begins at the
// cursor now. It reports false when i cannot serve it. Exclusions, and whether i
// is online or full, do not count: the session has a link to it, or is about to.
func Leg(x *pipeline.Exchange, i int) (end uint32, ok bool) {
	p := newPlanner(x)
	if place := x.View.Place(p.n); !p.wanted() || place != fleet.Covered && place != fleet.Below {
		return 0, false
	}
	u := &x.View.Upstreams[i]
	if u.Quarantined(p.n, x.Now) || u.Frozen() && (x.Finished() || x.Gated(p.n)) {
		return 0, false
	}
	x.View.Holders(p.n, p.need, func(h fleet.Holder) bool {
		if ok = h.Index == i; ok {
			end = p.run(h, u)
		}
		return !ok
	})
	return end, ok
}

func newPlanner(x *pipeline.Exchange) planner {
	p := planner{x: x, n: x.Cursor, need: fleet.NeedOf(&x.Want), best: unranked}
	if x.Finished() {
		// Only a node at the tip can rewind to the positions below (S8).
		p.n = x.Want.Start
	}
	if x.StuckAt == p.n {
		p.count(x.Failed)
	}
	if x.LeftAt == p.n {
		p.count(x.Left)
	}
	return p
}

// wanted reports whether the client is to be sent anything.
func (p *planner) wanted() bool {
	x := p.x
	return x.Asked && !x.Empty() && (!x.Finished() || x.Fresh)
}

// planner is the work on one plan.
type planner struct {
	x    *pipeline.Exchange
	n    uint32
	need fleet.Need
	// best is the lowest rank of all holders, those that cannot serve included.
	best int
	// inVain is how often upstreams of each kind were asked in vain.
	inVain [2]int
	// What keeps holders from being asked at all.
	excluded, busy, quarantined bool
	again                       time.Time
}

// until notes that something that is in the way ends at t.
func (p *planner) until(t time.Time) {
	if p.again.IsZero() || t.Before(p.again) {
		p.again = t
	}
}

// consider ranks a holder of the block, and makes it a candidate if it can
// serve now.
func (p *planner) consider(h fleet.Holder) {
	x := p.x
	u := &x.View.Upstreams[h.Index]
	if x.Finished() && u.Frozen() {
		return
	}
	if x.Excluded(h.Index, x.Now) {
		e := x.Hard[h.Index]
		p.excluded, p.busy = true, p.busy || e.Busy
		p.until(e.Until)
		return
	}
	for _, q := range u.Quarantines {
		if q.Covers(p.n, x.Now) {
			p.quarantined = true
			p.until(q.Until)
			return
		}
	}
	rank := p.rank(h.Index, u)
	p.best = min(p.best, rank)
	if rank&rankOffline != 0 && !x.Desperate || rank&(rankFull|rankGated) != 0 {
		return
	}
	x.Candidates = append(x.Candidates, pipeline.Candidate{Index: h.Index, Online: u.Online, Rank: rank, Run: p.run(h, u)})
}

// count takes in that upstreams were asked for the block in vain.
func (p *planner) count(asked []int) {
	for _, i := range asked {
		p.inVain[kind(&p.x.View.Upstreams[i])]++
	}
}

// kind is 1 for archives and 0 for nodes at the tip.
func kind(u *fleet.Upstream) int {
	if u.Frozen() {
		return 1
	}
	return 0
}

func (p *planner) rank(i int, u *fleet.Upstream) (rank int) {
	x := p.x
	for _, k := range [...]struct {
		key  int
		true bool
	}{
		{rankOffline, !u.Online},
		{rankGivenUp, x.InVainAt(i, p.n) >= givenUp},
		{rankKin, p.inVain[kind(u)] >= givenUp},
		{rankFull, u.FullBeside(x.Own(i))},
		{rankStale, u.Stale || x.View.Lagging(i, p.n, x.Tip.Head.Num)},
		{rankNoBlockLog, x.Want.FetchBlock && u.NoBlockLog},
		{rankSoft, x.Soft == i || x.FailedAt(i, p.n) > 0},
		{rankRole, !u.Frozen() && x.View.Stitching != nil && x.View.Stitching.HistoryPreference == "frozen"},
		{rankGated, u.Frozen() && x.Gated(p.n)},
	} {
		if k.true {
			rank |= k.key
		}
	}
	return rank
}

// run is where a leg on h ends (P6, P7).
func (p *planner) run(h fleet.Holder, u *fleet.Upstream) uint32 {
	x := p.x
	if x.Finished() {
		return x.Want.End
	}
	end := min(h.End, x.Want.End)
	if u.Frozen() {
		// The gate is not below n, or it would not be a candidate.
		end = min(end, max(x.Gate(), x.Gate()+1))
	}
	for _, q := range u.Quarantines {
		if q.Block > p.n && x.Now.Before(q.Until) {
			end = min(end, q.Block)
		}
	}
	if x.Want.FetchBlock && u.NoBlockLog {
		end = p.blocksFrom(h.Index, end)
	}
	return end
}

// blocksFrom is the first block below end from which on another upstream could
// send the blocks that archive i has no log of; end when there is none.
func (p *planner) blocksFrom(i int, end uint32) uint32 {
	x := p.x
	return x.View.Next(p.n, end, p.need, func(h fleet.Holder, n uint32) uint32 {
		u := &x.View.Upstreams[h.Index]
		if h.Index == i || !u.Online || u.FullBeside(x.Own(h.Index)) || u.NoBlockLog || x.Excluded(h.Index, x.Now) {
			return end
		}
		if n = unquarantined(u, n, x.Now); n >= h.End {
			return end
		}
		return n
	})
}

// unquarantined is the first block from n on that u may be asked for; NoBlock
// when there is none.
func unquarantined(u *fleet.Upstream, n uint32, now time.Time) uint32 {
	for {
		i := slices.IndexFunc(u.Quarantines, func(q fleet.Quarantine) bool { return q.Covers(n, now) })
		if i < 0 {
			return n
		}
		q := &u.Quarantines[i]
		if uint64(q.Block)+uint64(q.Range) >= fleet.NoBlock {
			return fleet.NoBlock
		}
		n = q.Block + q.Range
	}
}

// decide sets the plan from what was considered (P4, P5, P8).
func (p *planner) decide() {
	x := p.x
	x.Plan.Again = p.again
	switch {
	case p.best == unranked && x.Finished():
		// There is no node at the tip, and the client is owed nothing.
		x.Plan.Do = pipeline.Wait
	case p.best == unranked:
		p.hold(p.reason())
	case p.best&rankGated != 0:
		// Nobody is missed yet, whether he is there or not.
		x.Candidates = x.Candidates[:0]
		x.Plan.Do = pipeline.Wait
	case len(x.Candidates) > 0:
	case p.best&rankOffline != 0 && !x.Desperate:
		p.hold(fleet.HoldOffline)
	default:
		p.hold(fleet.HoldAtCapacity)
	}
}

// hold makes the plan a hold. It has a limit unless the block, which is the next
// of live nodes only, will come when one of them does (P8).
func (p *planner) hold(why fleet.HoldReason) {
	x := p.x
	x.Plan.Do, x.Plan.Why, x.Plan.Bounded = pipeline.Hold, why, !x.Finished() && !x.View.OnlyLive(p.n)
}

// reason is why no holder may be asked at all (P4).
func (p *planner) reason() fleet.HoldReason {
	switch {
	case p.excluded && p.busy:
		return fleet.HoldBusy
	case p.excluded:
		return fleet.HoldOffline
	case p.quarantined && !p.x.View.AnyDisabled(p.n):
		return fleet.HoldQuarantined
	default:
		return fleet.HoldOffline
	}
}
