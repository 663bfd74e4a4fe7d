package fleet

import (
	"cmp"
	"slices"
	"sort"
	"sync/atomic"

	"flotilla/gateway/ship"
)

// An atlas tells which upstreams of a range-split fleet have which blocks. It
// is made once for a set of ranges, and shared by all views until one of these
// changes, so that a question costs a binary search however many servers there
// are. Who is online, full or quarantined is not in it.
//
// It counts every enabled upstream that anything is known of, online or not
// (the sticky union of G3 and M14).
type atlas struct {
	lands []land
	// bounds are the first blocks of the stretches, ascending: in each stretch
	// the same upstreams have the same logs. The last stretch has no end. covered
	// are the logs that anyone has there.
	bounds  []uint32
	covered []logSet
	// first is the lowest block that anyone has.
	first uint32
	// holders are those of each stretch, made when a request first needs just
	// these logs.
	holders [allLogs + 1]atomic.Pointer[[][]Holder]
}

// land is what one upstream has of each log: empty where it has none, without
// end (NoBlock) for live nodes.
type land [len(Logs)]ship.Range

// logSet is a set of logs.
type logSet uint8

const allLogs logSet = 1<<len(Logs) - 1

// logs are those that the request wants (G3).
func (n Need) logs() (s logSet) {
	if n.Traces {
		s |= 1 << Trace
	}
	if n.Deltas {
		s |= 1 << ChainState
	}
	if n.Finality {
		s |= 1 << Finality
	}
	return s
}

// Holder is an upstream that has a block as fully as the fleet can.
type Holder struct {
	Index int
	// End is the end of its run (P7): the first block that it does not have as
	// fully as the fleet can; NoBlock when there is none.
	End uint32
}

// Place is where a block lies in what the fleet has.
type Place int

// The places (P2, P3).
const (
	// Unheard: nothing is known of any upstream yet.
	Unheard Place = iota
	// Below: below the first block that any upstream has.
	Below
	// Covered: somebody has it, or will, as it is above the head of a live node.
	Covered
	// Hole: nobody has it, while others have blocks below and above.
	Hole
	// Beyond: at or above the end of a fleet of archives.
	Beyond
)

func landOf(u *Upstream) (l land) {
	if !u.Known || u.Removed {
		return l
	}
	for _, log := range Logs {
		r := u.Range(log)
		if !u.Frozen() && r.End > 0 {
			r.End = NoBlock
		}
		if !r.Empty() {
			l[log] = r
		}
	}
	return l
}

// atlasOf makes the atlas of the upstreams, or returns old when that still
// holds.
func atlasOf(upstreams []Upstream, old *atlas) *atlas {
	lands := make([]land, len(upstreams))
	for i := range upstreams {
		lands[i] = landOf(&upstreams[i])
	}
	if old != nil && slices.Equal(old.lands, lands) {
		return old
	}
	a := &atlas{lands: lands}
	for i := range lands {
		for _, r := range lands[i] {
			if r.Empty() {
				continue
			}
			a.bounds = append(a.bounds, r.Begin)
			if r.End != NoBlock {
				a.bounds = append(a.bounds, r.End)
			}
		}
	}
	slices.Sort(a.bounds)
	a.bounds = slices.Compact(a.bounds)
	a.covered = make([]logSet, len(a.bounds))
	for i := range lands {
		for log, r := range lands[i] {
			if r.Empty() {
				continue
			}
			for s := a.stretch(r.Begin); s < len(a.bounds) && a.bounds[s] < r.End; s++ {
				a.covered[s] |= 1 << log
			}
		}
	}
	if len(a.bounds) > 0 {
		a.first = a.bounds[0]
	}
	return a
}

// stretch is the index of the stretch that block n lies in, -1 below the first.
func (a *atlas) stretch(n uint32) int {
	return sort.Search(len(a.bounds), func(i int) bool { return a.bounds[i] > n }) - 1
}

// after is the first block of the stretch that follows that of n.
func (a *atlas) after(n uint32) (next uint32, more bool) {
	s := a.stretch(n) + 1
	if s == len(a.bounds) {
		return 0, false
	}
	return a.bounds[s], true
}

// place is where block n lies.
func (a *atlas) place(n uint32) Place {
	s := a.stretch(n)
	switch {
	case len(a.bounds) == 0:
		return Unheard
	case s < 0:
		return Below
	case a.covered[s] != 0:
		return Covered
	case s == len(a.bounds)-1:
		return Beyond
	default:
		return Hole
	}
}

// at are the logs that upstream i has in stretch s.
func (a *atlas) at(i, s int) (set logSet) {
	for log, r := range a.lands[i] {
		if r.Contains(a.bounds[s]) {
			set |= 1 << log
		}
	}
	return set
}

// stretches are the holders of each stretch for a request that wants these logs.
func (a *atlas) stretches(want logSet) [][]Holder {
	if made := a.holders[want].Load(); made != nil {
		return *made
	}
	made := make([][]Holder, len(a.bounds))
	for i := range a.lands {
		begin, end := a.hull(i)
		if begin >= end {
			continue
		}
		first := a.stretch(begin)
		last := first
		for last+1 < len(a.bounds) && a.bounds[last+1] < end {
			last++
		}
		run := uint32(0) // the end of the run that goes on above
		for s := last; s >= first; s-- {
			// Any log tells a block's id; of those that are wanted it has to have
			// each that anyone has.
			set := a.at(i, s)
			if set == 0 || want&a.covered[s]&^set != 0 {
				run = 0
				continue
			}
			if run == 0 {
				if run = NoBlock; s+1 < len(a.bounds) {
					run = a.bounds[s+1]
				}
			}
			made[s] = append(made[s], Holder{i, run})
		}
	}
	a.holders[want].Store(&made)
	return made
}

// hull is from the first block of any log of upstream i to the end of the last.
func (a *atlas) hull(i int) (begin, end uint32) {
	begin = NoBlock
	for _, r := range a.lands[i] {
		if !r.Empty() {
			begin, end = min(begin, r.Begin), max(end, r.End)
		}
	}
	return begin, end
}

// holdersOf calls f for the holders of block n. Below the fleet's first block
// they are the upstreams that begin with it (P3): they answer without ids until
// their own range begins.
func (a *atlas) holdersOf(n uint32, need Need, f func(Holder) bool) {
	if len(a.bounds) == 0 {
		return
	}
	all := a.stretches(need.logs())
	if s := a.stretch(n); s >= 0 {
		for _, h := range all[s] {
			if !f(h) {
				return
			}
		}
		return
	}
	for i := range a.lands {
		if begin, end := a.hull(i); begin >= end || begin != a.first {
			continue
		}
		h := Holder{i, a.first}
		if at, ok := slices.BinarySearchFunc(all[0], i, func(h Holder, i int) int { return cmp.Compare(h.Index, i) }); ok {
			h = all[0][at]
		}
		if !f(h) {
			return
		}
	}
}
