package forward

import "flotilla/gateway/pipeline"

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
