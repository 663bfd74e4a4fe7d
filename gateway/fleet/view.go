package fleet

import (
	"math"
	"slices"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"
)

// View is an immutable snapshot of what is known of a listener's fleet. It
// holds the enabled servers in the order of the first configuration; those that
// a later one added follow, and those that it removed stay (Upstream.Removed).
type View struct {
	// Generation counts views from 1 on.
	Generation uint64
	Upstreams  []Upstream
	// ChainID is the pinned one, else that of the first online upstream that
	// reported one (M9); nil when there is none.
	ChainID *ship.ID
	// Lag is live_lag_blocks; 0 is off.
	Lag uint32
}

// Eligible is G3: whether upstream i can serve block n as fully as the fleet
// can. The union is that of a pool: the online, routable upstreams.
func (v *View) Eligible(i int, n uint32, need Need, now time.Time) bool {
	return !v.Upstreams[i].Quarantined(n, now) && v.Covers(i, n, need)
}

// Covers is Eligible without regard to quarantines.
func (v *View) Covers(i int, n uint32, need Need) bool {
	u := &v.Upstreams[i]
	if !u.Routable() || !u.Known || !u.Understands(need) {
		return false
	}
	if need.Traces && !u.CoversTrace(n) && v.any((*Upstream).CoversTrace, n) {
		return false
	}
	if need.Deltas && !u.CoversChainState(n) && v.any((*Upstream).CoversChainState, n) {
		return false
	}
	if need.Finality && !u.CoversFinality(n) && v.any((*Upstream).CoversFinality, n) {
		return false
	}
	return u.CoversIDs(n) || !v.any((*Upstream).CoversIDs, n)
}

func (v *View) any(covers func(*Upstream, uint32) bool, n uint32) bool {
	for i := range v.Upstreams {
		if u := &v.Upstreams[i]; u.Online && u.Routable() && covers(u, n) {
			return true
		}
	}
	return false
}

// NoBlock stands for the next block of a session that has no request.
const NoBlock = math.MaxUint32

// Lagging is G5: whether upstream i is too far behind the fleet's head to be
// asked for block n, which is NoBlock without a request.
func (v *View) Lagging(i int, n uint32, fleetHead uint32) bool {
	u := &v.Upstreams[i]
	if v.Lag == 0 || u.Server.Role != config.Live {
		return false
	}
	return uint64(u.Head.Num)+uint64(v.Lag) < uint64(fleetHead) && n > u.Head.Num
}

// anchors calls f for each upstream that the fleet's tip is taken from (M10):
// the fresh online live ones, or all online live ones when none is fresh.
func (v *View) anchors(f func(u *Upstream)) {
	for i := range v.Upstreams {
		if v.anchored(i) {
			f(&v.Upstreams[i])
		}
	}
}

// anchored reports whether upstream i is one of the anchors.
func (v *View) anchored(i int) bool {
	if u := &v.Upstreams[i]; !u.anchor() || !u.Stale {
		return u.anchor()
	}
	return !slices.ContainsFunc(v.Upstreams, func(u Upstream) bool { return u.anchor() && !u.Stale })
}

func (u *Upstream) anchor() bool {
	return u.Online && u.Routable() && u.Server.Role == config.Live
}

// Online is how many upstreams count for readiness (spec "observability" 1.3).
func (v *View) Online() int {
	n := 0
	for i := range v.Upstreams {
		if u := &v.Upstreams[i]; u.Online && u.Routable() {
			n++
		}
	}
	return n
}
