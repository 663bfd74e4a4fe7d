package plan

import (
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
)

// Refusal is why an upstream is no candidate, in words; "" for one that is.
type Refusal string

// The refusals. Those behind refusedFull are of range-split fleets only, which
// in turn have archives.
const (
	refusedRemoved     Refusal = "it is no longer in the configuration"
	refusedDisabled    Refusal = "an operator has disabled it"
	refusedFrozen      Refusal = "an archive serves range-split fleets only"
	refusedOffline     Refusal = "it is offline"
	refusedExcluded    Refusal = "the session leaves it alone for a while after a failure"
	refusedQuarantined Refusal = "it is quarantined at this block"
	refusedRequest     Refusal = "it does not know requests of this version"
	refusedBehind      Refusal = "the client was told that the block is irreversible, and for this node it is not yet"
	refusedFull        Refusal = "it has as many sessions as max_sessions allows"
	refusedRest        Refusal = "nothing is asked for, or all of it was sent"
	refusedUnheard     Refusal = "it has not told yet which blocks it has"
	refusedABI         Refusal = "it has another ABI than the one that clients get"
	refusedBlock       Refusal = "it does not have the block in all logs that are asked for"
	refusedGated       Refusal = "the block is above the head or LIB up to which archives are asked"
	refusedRewind      Refusal = "only a live node can go back to the positions that the client has"
)

// refuse is why upstream i of a pool may not be picked for a block.
func refuse(x *pipeline.Exchange, i int, block uint32, need fleet.Need) Refusal {
	u := &x.View.Upstreams[i]
	switch {
	case u.Frozen():
		return refusedFrozen
	case u.Removed:
		return refusedRemoved
	case u.Disabled:
		return refusedDisabled
	// Offline nodes are a last resort for a session that has lost its upstream:
	// the monitor may know less than a dial finds out.
	case !u.Online && x.Cause != pipeline.Replace:
		return refusedOffline
	case x.Excluded(i, x.Now):
		return refusedExcluded
	case u.Quarantined(block, x.Now):
		return refusedQuarantined
	case block != fleet.NoBlock && !u.Understands(need):
		return refusedRequest
	case x.Behind(block, u.Live.LIB()):
		return refusedBehind
	// The upstream's own slot does not make it full for the session on it.
	case u.Full() && i != x.Current:
		return refusedFull
	}
	return ""
}

// Why tells why upstream i is not among the candidates of an exchange that has
// been through the stage.
func Why(x *pipeline.Exchange, i int) Refusal {
	if !x.Stitched {
		block, need := asked(x)
		return refuse(x, i, block, need)
	}
	p := newPlanner(x)
	u := &x.View.Upstreams[i]
	holds := false
	x.View.Holders(p.n, p.need, func(h fleet.Holder) bool {
		holds = holds || h.Index == i
		return !holds
	})
	rank := p.rank(i, u)
	switch {
	case u.Removed:
		return refusedRemoved
	case u.Disabled:
		return refusedDisabled
	case !p.wanted():
		return refusedRest
	case !u.Known:
		return refusedUnheard
	case !u.Understands(p.need):
		return refusedRequest
	case !x.View.Accepts(i, p.need):
		return refusedABI
	case !holds:
		return refusedBlock
	case x.Finished() && u.Frozen():
		return refusedRewind
	case x.Excluded(i, x.Now):
		return refusedExcluded
	case u.Quarantined(p.n, x.Now):
		return refusedQuarantined
	case rank&rankOffline != 0 && !x.Desperate:
		return refusedOffline
	case rank&rankFull != 0:
		return refusedFull
	case rank&rankGated != 0:
		return refusedGated
	}
	return ""
}
