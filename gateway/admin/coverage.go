package admin

import (
	"slices"

	"flotilla/gateway/fleet"
	"flotilla/gateway/ship"
)

// logCoverage is what the fleet has of one log (spec "observability" 2).
type logCoverage struct {
	// reported is the top component: what status replies say.
	reported ship.Range
	// gaps are the holes below it, ascending.
	gaps []ship.Range
	// offlineOnly are its parts that no counted upstream has, ascending.
	offlineOnly []ship.Range
	// segments are the ranges with a constant set of upstreams, ascending.
	segments []segment
}

// segment is a block range and the upstreams that have all of it, by their
// index in the view.
type segment struct {
	ship.Range
	upstreams []int
}

// cover takes the coverage of a log from a view. An upstream counts with what
// it reported last, online or not.
func cover(v *fleet.View, log fleet.Log, head uint32) logCoverage {
	c := logCoverage{reported: v.Reported(log, head), gaps: gaps(v.Segments(log, head)), segments: segments(v, log, head)}
	for _, s := range c.segments {
		if s.Begin < c.reported.Begin || slices.ContainsFunc(s.upstreams, func(i int) bool { return counted(&v.Upstreams[i]) }) {
			continue
		}
		if n := len(c.offlineOnly); n > 0 && c.offlineOnly[n-1].End == s.Begin {
			c.offlineOnly[n-1].End = s.End
		} else {
			c.offlineOnly = append(c.offlineOnly, s.Range)
		}
	}
	return c
}

// gaps are the holes between ascending ranges.
func gaps(covered []ship.Range) (holes []ship.Range) {
	for i := 1; i < len(covered); i++ {
		holes = append(holes, ship.Range{Begin: covered[i-1].End, End: covered[i].Begin})
	}
	return holes
}

// counted is 1.3: whether an upstream counts for readiness and coverage.
func counted(u *fleet.Upstream) bool { return u.Online && u.Routable() }

// segments cuts a log wherever an upstream begins or ends. As each of them has
// one range, the set of upstreams differs on the two sides of every cut.
func segments(v *fleet.View, log fleet.Log, head uint32) []segment {
	ranges := make([]ship.Range, len(v.Upstreams))
	var cuts []uint32
	for i := range v.Upstreams {
		// The view of one upstream tells its range as the fleet counts it.
		alone := fleet.View{Upstreams: v.Upstreams[i : i+1]}
		ranges[i] = alone.Reported(log, head)
		if !ranges[i].Empty() {
			cuts = append(cuts, ranges[i].Begin, ranges[i].End)
		}
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	var out []segment
	for k := 1; k < len(cuts); k++ {
		s := segment{Range: ship.Range{Begin: cuts[k-1], End: cuts[k]}}
		for i, r := range ranges {
			if r.Contains(s.Begin) {
				s.upstreams = append(s.upstreams, i)
			}
		}
		if len(s.upstreams) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// blocks is how many blocks the ranges hold together.
func blocks(ranges []ship.Range) (n uint64) {
	for _, r := range ranges {
		n += uint64(r.End - r.Begin)
	}
	return n
}
