package fleet

import (
	"cmp"
	"slices"

	"flotilla/gateway/config"
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

// Range is the range that the upstream reported for a log, or that is declared
// for it.
func (u *Upstream) Range(l Log) ship.Range {
	return [...]ship.Range{u.Trace, u.ChainState, u.Finality}[l]
}

// segment is what the upstream has of a log in the eyes of clients (M14). That
// of a live node goes to the fleet's head: its own log may end behind the head
// it told of last, or ahead of it after a reset.
func (u *Upstream) segment(l Log, fleetHead uint32) ship.Range {
	r := u.Range(l)
	if !u.Known {
		return ship.Range{}
	}
	if !u.Frozen() && r.End > 0 {
		r.End = next(fleetHead)
	}
	return r
}

// Coverage is what a fleet has of one log (M14). Upstreams that are offline or
// disabled count with what is known of them: coverage does not shrink when a
// node goes down.
type Coverage struct {
	// Ranges are ascending and do not touch; Gaps are the holes between them.
	Ranges, Gaps []ship.Range
	// Offline are the parts of the top range that no online, routable upstream
	// has, ascending.
	Offline []ship.Range
	// Segments are the ranges with a constant set of upstreams, ascending,
	// without the holes.
	Segments []Segment
}

// Segment is a block range and the upstreams that have all of it, by their
// index in the view, ascending.
type Segment struct {
	ship.Range
	Upstreams []int
}

// Top is the highest of the ranges, which is what a status says; 0,0 when
// there is none.
func (c *Coverage) Top() ship.Range { return top(c.Ranges) }

// Coverage is what the fleet has of a log.
func (v *View) Coverage(l Log, fleetHead uint32) Coverage {
	c := Coverage{Ranges: v.Ranges(l, fleetHead), Segments: v.segments(l, fleetHead)}
	c.Gaps = Gaps(c.Ranges)
	for _, s := range c.Segments {
		if s.Begin < c.Top().Begin || slices.ContainsFunc(s.Upstreams, func(i int) bool { return v.Upstreams[i].Counted() }) {
			continue
		}
		c.Offline = append(c.Offline, s.Range)
	}
	c.Offline = Merge(c.Offline)
	return c
}

// segments cuts a log wherever an upstream begins or ends. As each of them has
// one range, the set of upstreams differs on the two sides of every cut.
func (v *View) segments(l Log, fleetHead uint32) []Segment {
	ranges := make([]ship.Range, len(v.Upstreams))
	var cuts []uint32
	for i := range v.Upstreams {
		if ranges[i] = v.Upstreams[i].segment(l, fleetHead); !ranges[i].Empty() {
			cuts = append(cuts, ranges[i].Begin, ranges[i].End)
		}
	}
	if len(cuts) == 0 {
		return nil
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	all := make([]Segment, len(cuts)-1)
	for k := range all {
		all[k].Range = ship.Range{Begin: cuts[k], End: cuts[k+1]}
	}
	for i, r := range ranges {
		for k, _ := slices.BinarySearch(cuts, r.Begin); k < len(all) && all[k].End <= r.End; k++ {
			all[k].Upstreams = append(all[k].Upstreams, i)
		}
	}
	return slices.DeleteFunc(all, func(s Segment) bool { return len(s.Upstreams) == 0 })
}

// Ranges are the parts of a log that the fleet has, ascending, merged where
// they touch (M14).
func (v *View) Ranges(l Log, fleetHead uint32) []ship.Range {
	all := make([]ship.Range, 0, len(v.Upstreams))
	for i := range v.Upstreams {
		all = append(all, v.Upstreams[i].segment(l, fleetHead))
	}
	return Merge(all)
}

// Reported is what a status says of a log: its top range, or 0,0 (T3).
func (v *View) Reported(l Log, fleetHead uint32) ship.Range { return top(v.Ranges(l, fleetHead)) }

func top(ranges []ship.Range) ship.Range {
	if len(ranges) == 0 {
		return ship.Range{}
	}
	return ranges[len(ranges)-1]
}

// Merge sorts ranges, in place, and returns them joined where they touch. Those
// that are empty are left out.
func Merge(list []ship.Range) (out []ship.Range) {
	slices.SortFunc(list, func(a, b ship.Range) int { return cmp.Compare(a.Begin, b.Begin) })
	for _, r := range list {
		switch last := len(out) - 1; {
		case r.Empty():
		case last >= 0 && r.Begin <= out[last].End:
			out[last].End = max(out[last].End, r.End)
		default:
			out = append(out, r)
		}
	}
	return out
}

// Gaps are the holes between ranges as Merge returns them.
func Gaps(ranges []ship.Range) (holes []ship.Range) {
	for i := 1; i < len(ranges); i++ {
		holes = append(holes, ship.Range{Begin: ranges[i-1].End, End: ranges[i].Begin})
	}
	return holes
}

// LiveOverlap is how many blocks of a log both the archives and the online live
// nodes have (M15): negative when there is a hole between them. It reports
// false while there is no archive or no online live node with such a log.
func (v *View) LiveOverlap(l Log) (blocks int64, ok bool) {
	var end uint32
	begin, live := uint32(NoBlock), false
	for i := range v.Upstreams {
		u := &v.Upstreams[i]
		switch r := u.Range(l); {
		case !u.Known:
		case u.Frozen():
			end = max(end, r.End)
		case u.Online && r.End > 0:
			begin, live = min(begin, r.Begin), true
		}
	}
	return int64(end) - int64(begin), live && end > 0
}

// RangeMismatch reports whether an archive has reported another range than the
// configuration declares (M7).
func (u *Upstream) RangeMismatch() bool {
	return u.Frozen() && u.Reported && u.Server.Range != nil && !Fits(*u.Server.Range, u.Trace, u.ChainState)
}

// Fits reports whether an archive that declares a range may report these logs:
// each begins with it, or at 2 for a range from 1, as nobody has traces of
// block 1; and ends with it, or one of the two a block before.
func Fits(declared config.Range, trace, state ship.Range) bool {
	fits := func(r ship.Range) bool {
		begins := r.Begin == declared.Begin || declared.Begin == 1 && r.Begin == 2
		return begins && !r.Empty() && (r.End == declared.End || r.End+1 == declared.End)
	}
	return fits(trace) && fits(state) && max(trace.End, state.End) == declared.End
}

// next is n+1 without wrapping.
func next(n uint32) uint32 {
	if n == NoBlock {
		return n
	}
	return n + 1
}
