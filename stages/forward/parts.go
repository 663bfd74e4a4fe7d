package forward

import (
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
)

// breach is the rule for archives that a result breaks in itself (S23); "" for
// none. What it is in the stream is for dedup to see.
func breach(x *pipeline.Exchange, r *pipeline.Result) fleet.Violation {
	switch {
	case r.V1 != x.Want.V1:
		return fleet.ViolationVariant
	case r.Kind == pipeline.KeepAlive:
		return fleet.ViolationIdless
	case r.Kind == pipeline.Idless && x.View.Upstreams[x.Link.Upstream].CoversIDs(r.Num):
		return fleet.ViolationIdless
	case incomplete(x, r):
		return fleet.ViolationMissingField
	}
	return ""
}

// WithoutBlock reports whether an archive that covers a block has sent it
// without the block itself, although asked for it (P20).
func WithoutBlock(x *pipeline.Exchange, r *pipeline.Result) bool {
	return x.Link.Frozen && x.Want.FetchBlock && r.HasThis && !r.Parts.Block && x.View.Upstreams[x.Link.Upstream].CoversIDs(r.This.Num)
}

// incomplete reports whether a result lacks a part that the client asked for
// and that the node's log has for that block. Some node versions send such a
// one while they are still writing their logs, and the whole one later; passed
// on it would be taken for a block without traces or deltas.
//
// What the node's log does not cover is nobody's fault (G3), and a missing
// block is none either: its block log may be pruned.
func incomplete(x *pipeline.Exchange, r *pipeline.Result) bool {
	if r.Kind != pipeline.Block {
		return false
	}
	u := &x.View.Upstreams[x.Link.Upstream]
	return x.Want.FetchTraces && !r.Parts.Traces && u.CoversTrace(r.Num) ||
		x.Want.FetchDeltas && !r.Parts.Deltas && u.CoversChainState(r.Num) ||
		x.Want.FetchFinality && !r.Parts.Finality && u.CoversFinality(r.Num)
}
