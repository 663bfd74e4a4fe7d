package fleet

import (
	"sync"
	"sync/atomic"
	"time"

	"flotilla/gateway/ship"
)

// tip is the highest head and LIB seen so far, each by number.
type tip struct {
	// now is what it is; what it points to never changes. Nearly every result
	// brings nothing new, which shows without the lock: thousands of sessions that
	// wait for it would each hold a buffer meanwhile.
	now atomic.Pointer[Pair]
	mu  sync.Mutex
	// source is the upstream that the head came from: a fork of the newest
	// block has its number and another id, and only the node that told of the
	// block can take it back.
	source *Live
}

// get is the tip; numbers are 0 while nothing is known.
func (t *tip) get() (head, lib ship.Pos) {
	if p := t.now.Load(); p != nil {
		return p.Head, p.LIB
	}
	return ship.Pos{}, ship.Pos{}
}

// headNum is the number of the head, 0 while it is unknown.
func (t *tip) headNum() uint32 {
	head, _ := t.get()
	return head.Num
}

// set exchanges the tip. The caller holds the lock.
func (t *tip) set(head, lib ship.Pos, source *Live) {
	t.source = source
	t.now.Store(&Pair{Head: head, LIB: lib})
}

// raise takes what is higher, and another id of the head from the one that it
// came from. It reports whether anything was taken.
func (t *tip) raise(head, lib *ship.Pos, source *Live) bool {
	if p := t.now.Load(); p != nil && (head.Num < p.Head.Num || *head == p.Head) && lib.Num <= p.LIB.Num {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.raiseLocked(head, lib, source)
}

// raiseLocked is raise for the holder of the lock.
func (t *tip) raiseLocked(head, lib *ship.Pos, source *Live) bool {
	toldHead, toldLIB := t.get()
	raised, from := false, t.source
	if head.Num > toldHead.Num || head.Num == toldHead.Num && source == from && head.ID != toldHead.ID {
		toldHead, from, raised = *head, source, true
	}
	if lib.Num > toldLIB.Num {
		toldLIB, raised = *lib, true
	}
	if raised {
		t.set(toldHead, toldLIB, from)
	}
	return raised
}

// merge raises t to what other has.
func (t *tip) merge(other *tip, source *Live) {
	head, lib := other.get()
	t.raise(&head, &lib, source)
}

// reset forgets everything: the node behind it was replaced or set back.
func (t *tip) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(ship.Pos{}, ship.Pos{}, nil)
}

// renewTip takes the tip anew from the anchors (M10): it may go back when the
// node that led is gone. Without an anchor the last pair stays (M11).
func (f *Fleet) renewTip(v *View) {
	// What a session sees from here on waits for the lock, and comes on top.
	f.tip.mu.Lock()
	defer f.tip.mu.Unlock()
	var anew tip
	// Of equal numbers the id that is told already stays.
	v.anchors(func(u *Upstream) {
		if u.Live == f.tip.source {
			anew.merge(&u.Live.told, u.Live)
		}
	})
	v.anchors(func(u *Upstream) { anew.merge(&u.Live.told, u.Live) })
	if anew.source == nil {
		v.newestArchive(&anew)
	}
	if anew.source == nil {
		return
	}
	head, lib := anew.get()
	f.raiseFloor(&lib)
	f.risen(head.Num)
	f.tip.set(head, lib, anew.source)
	f.showTip()
}

// newestArchive takes the last block of the newest archive as head and LIB of a
// listener that has no live node (M11), also of one that is offline or disabled:
// coverage counts its blocks, too.
func (v *View) newestArchive(t *tip) {
	var newest *Upstream
	for i := range v.Upstreams {
		u := &v.Upstreams[i]
		if !u.Frozen() && !u.Removed {
			return
		}
		if u.Reported && (newest == nil || u.Head.Num > newest.Head.Num) {
			newest = u
		}
	}
	if newest != nil {
		t.set(newest.Head, newest.Head, newest.Live)
	}
}

// Pair is a head and a LIB that belong together: LIB is not above head.
type Pair struct{ Head, LIB ship.Pos }

// showTip lets readers have the tip as it is now. The caller holds its lock.
func (f *Fleet) showTip() {
	p := &Pair{}
	p.Head, p.LIB = f.tip.get()
	if _, floor := f.libFloor.get(); floor.Num > p.LIB.Num {
		p.LIB = floor
	}
	if p.LIB.Num > p.Head.Num {
		p.LIB = p.Head
	}
	f.pair.Store(p)
}

// raiseFloor takes a LIB that is about to be told. It goes before the tip, so
// that no reader sees the tip without it.
func (f *Fleet) raiseFloor(lib *ship.Pos) { f.libFloor.raise(&ship.Pos{}, lib, nil) }

// capped is the LIB of a pair, or its head when LIB claims to be above it: that
// is nonsense, which must not stay in the floor for ever.
func capped(head, lib *ship.Pos) *ship.Pos {
	if lib.Num > head.Num {
		return head
	}
	return lib
}

// risen notes when the number of the head last rose. The holder of the tip's
// lock calls it before the tip has that head.
func (f *Fleet) risen(head uint32) {
	if head > f.tip.headNum() {
		f.headAt.Store(int64(time.Since(f.started)))
	}
}

// Observe takes the head and LIB of a result that a session got from upstream
// i (S33). It is cheap when they are not new.
func (f *Fleet) Observe(v *View, i int, head, lib *ship.Pos) {
	live := v.Upstreams[i].Live
	lib = capped(head, lib)
	if !live.told.raise(head, lib, live) {
		return
	}
	f.tip.mu.Lock()
	defer f.tip.mu.Unlock()
	// The caller's view may be older than the one that the tip was taken from.
	if f.View().anchored(i) {
		f.raiseFloor(lib)
		f.risen(head.Num)
		if f.tip.raiseLocked(head, lib, live) {
			f.showTip()
		}
	}
}

// Tip is the fleet's head and LIB: the highest of the statuses of the fresh
// online live nodes and of what sessions stream from them. LIB never goes back
// and is capped at head. It reports false while either is unknown.
func (f *Fleet) Tip() (head, lib ship.Pos, known bool) {
	p := f.Pair()
	return p.Head, p.LIB, p.Head.Num > 0 && p.LIB.Num > 0
}

// Pair is the fleet's head and LIB; numbers are 0 while unknown. It takes no
// lock, and what it points to never changes.
func (f *Fleet) Pair() *Pair { return f.pair.Load() }

// HeadAge is how long ago the number of the head last rose; since the start
// while it never has.
func (f *Fleet) HeadAge() time.Duration {
	return time.Since(f.started) - time.Duration(f.headAt.Load())
}
