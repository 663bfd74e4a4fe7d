package fleet

import (
	"slices"

	"flotilla/gateway/ship"
)

// Log is one of the three logs of a node's state history.
type Log int

// The logs, in the order of status results.
const (
	Trace Log = iota
	ChainState
	Finality
)

// Logs are all of them, for loops.
var Logs = [...]Log{Trace, ChainState, Finality}

// String is the log's label in metrics and documents.
func (l Log) String() string { return [...]string{"trace", "chain_state", "finality"}[l] }

// Range is the range that the upstream reported for a log.
func (u *Upstream) Range(l Log) ship.Range {
	return [...]ship.Range{u.Trace, u.ChainState, u.Finality}[l]
}

// Segments are the parts of a log that the fleet covers, ascending, merged
// where they touch (M14). A live node's part goes to the fleet's head. Offline upstreams count with what they reported last.
func (v *View) Segments(l Log, fleetHead uint32) []ship.Range {
	var all []ship.Range
	for i := range v.Upstreams {
		u := &v.Upstreams[i]
		if r := u.Range(l); u.Known && r.End > 0 {
			// Its log may end behind the head it told of last, or ahead of it
			// after a reset; what clients can have ends at the fleet's head.
			r.End = next(fleetHead)
			if !r.Empty() {
				all = append(all, r)
			}
		}
	}
	slices.SortFunc(all, func(a, b ship.Range) int { return int(int64(a.Begin) - int64(b.Begin)) })
	var out []ship.Range
	for _, r := range all {
		if n := len(out); n > 0 && r.Begin <= out[n-1].End {
			out[n-1].End = max(out[n-1].End, r.End)
		} else {
			out = append(out, r)
		}
	}
	return out
}

// Reported is what a status says of a log: its top segment, or 0,0 (T3).
func (v *View) Reported(l Log, fleetHead uint32) ship.Range {
	s := v.Segments(l, fleetHead)
	if len(s) == 0 {
		return ship.Range{}
	}
	return s[len(s)-1]
}

// next is n+1 without wrapping.
func next(n uint32) uint32 {
	if n == NoBlock {
		return n
	}
	return n + 1
}
