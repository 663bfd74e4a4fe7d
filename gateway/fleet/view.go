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
	// Routing counts those that differ from the one before in more than how far
	// the nodes have come.
	Routing   uint64
	Upstreams []Upstream
	// ChainID is the pinned one, else that of the first online upstream that
	// reported one (M9); nil when there is none.
	ChainID *ship.ID
	// Lag is live_lag_blocks; 0 is off.
	Lag uint32
	// Holds: clients of a pool are held while there is no node for them
	// (hold_wait), rather than closed.
	Holds bool
	// Stitching are the settings of a range-split fleet; nil for a pool.
	Stitching *config.Stitching
	// ABI is what the clients of a range-split fleet get (M18); nil while there
	// is none, and for a pool.
	ABI *ship.ABI
	// ABISource is the name of the server that ABI was taken from, or ABIFile.
	ABISource string
	// ABIProvisional: ABI is that of an archive, until a live node sends one.
	ABIProvisional bool

	atlas *atlas // nil for a pool
	// abiFromLive: ABI is, or was, that of a live node.
	abiFromLive bool
}

// ABIFile is the ABISource of an ABI that the configuration gives.
const ABIFile = "abi_file"

// NewView is the first view of a listener: upstreams as they are given.
func NewView(cfg *config.Listener, upstreams []Upstream) *View {
	return (&View{}).next(cfg, upstreams)
}

// next is the view that follows v.
func (v *View) next(cfg *config.Listener, upstreams []Upstream) *View {
	n := &View{
		Generation: v.Generation + 1, Upstreams: slices.Clone(upstreams), Lag: cfg.LiveLagBlocks, ChainID: (*ship.ID)(cfg.ChainID),
		Holds: !cfg.Stitched() && cfg.HoldWait > 0,
	}
	if cfg.Stitched() {
		n.atlas = atlasOf(n.Upstreams, v.atlas)
		n.Stitching = &cfg.Stitching
		n.canonical(cfg, v)
	}
	return n
}

// ABIMismatched reports whether upstream i has sent another ABI than the one
// that the clients of a range-split fleet get.
func (v *View) ABIMismatched(i int) bool {
	u := &v.Upstreams[i]
	return v.ABI != nil && u.ABI != nil && !u.Removed && u.ABI.Fingerprint != v.ABI.Fingerprint
}

// Place is where block n lies in what a range-split fleet has.
func (v *View) Place(n uint32) Place { return v.atlas.place(n) }

// FirstBlock is the lowest block that any upstream of a range-split fleet has,
// 0 while nothing is known.
func (v *View) FirstBlock() uint32 { return v.atlas.first }

// Holders calls f, until it returns false, for the upstreams of a range-split
// fleet that have block n as fully as the fleet can, and may be picked at all.
// Whether one is online, quarantined or full is for the caller to see.
func (v *View) Holders(n uint32, need Need, f func(Holder) bool) {
	v.atlas.holdersOf(n, need, func(h Holder) bool { return !v.Accepts(h.Index, need) || f(h) })
}

// Accepts reports whether upstream i may be asked by the clients of a
// range-split fleet: it is routable, its ABI knows the request, and is the one
// that clients have, where that is required (P21).
func (v *View) Accepts(i int, need Need) bool {
	u := &v.Upstreams[i]
	if !u.Routable() || !u.Understands(need) {
		return false
	}
	strict := v.Stitching != nil && v.Stitching.ABIMismatch == "exclude"
	return !strict || !v.ABIMismatched(i)
}

// Next is the lowest block from n up to end that from gives for the holders of
// the blocks in between; from gets a holder and the first block that it is one
// for. It is end when nobody gives a lower one.
func (v *View) Next(n, end uint32, need Need, from func(h Holder, n uint32) uint32) uint32 {
	for at, more := n, true; more && at < end; at, more = v.atlas.after(at) {
		v.Holders(at, need, func(h Holder) bool {
			if b := from(h, at); b > n {
				end = min(end, b)
			}
			return true
		})
	}
	return end
}

// OnlyLive reports whether live nodes, and no archives, have block n.
func (v *View) OnlyLive(n uint32) bool {
	live, frozen := false, false
	v.atlas.holdersOf(n, Need{}, func(h Holder) bool {
		if v.Upstreams[h.Index].Frozen() {
			frozen = true
		} else {
			live = true
		}
		return !frozen
	})
	return live && !frozen
}

// AnyDisabled reports whether an upstream that an operator has disabled has
// block n.
func (v *View) AnyDisabled(n uint32) bool {
	disabled := false
	v.atlas.holdersOf(n, Need{}, func(h Holder) bool {
		disabled = v.Upstreams[h.Index].Disabled
		return !disabled
	})
	return disabled
}

// RunEnd is the end of the run of upstream i from block n on (P7), without
// regard to quarantines. It reports false when it does not have block n as
// fully as the fleet can.
func (v *View) RunEnd(i int, n uint32, need Need) (end uint32, ok bool) {
	v.Holders(n, need, func(h Holder) bool {
		if ok = h.Index == i; ok {
			end = h.End
		}
		return !ok
	})
	return end, ok
}

// Unreported is how many enabled archives have neither reported nor declared a
// range (M16).
func (v *View) Unreported() int {
	n := 0
	for i := range v.Upstreams {
		if u := &v.Upstreams[i]; u.Frozen() && !u.Removed && !u.Known {
			n++
		}
	}
	return n
}

// Eligible is G3: whether upstream i can serve block n as fully as the fleet
// can. The union of a pool are the online, routable upstreams, that of a
// range-split fleet all enabled ones that are known.
func (v *View) Eligible(i int, n uint32, need Need, now time.Time) bool {
	if v.Upstreams[i].Quarantined(n, now) {
		return false
	}
	if v.Stitching != nil {
		_, ok := v.RunEnd(i, n, need)
		return ok
	}
	return v.Covers(i, n, need)
}

// Covers is Eligible for a pool, without regard to quarantines.
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
		if u := &v.Upstreams[i]; u.Counted() && covers(u, n) {
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
	return u.Counted() && u.Server.Role == config.Live
}

// Online is how many upstreams count for readiness (spec "observability" 1.3).
func (v *View) Online() int {
	n := 0
	for i := range v.Upstreams {
		if v.Upstreams[i].Counted() {
			n++
		}
	}
	return n
}
