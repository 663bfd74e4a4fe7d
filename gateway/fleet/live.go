package fleet

import (
	"sync/atomic"

	"flotilla/gateway/recent"
	"flotilla/gateway/ship/dial"
)

// Purpose is why a session link was dialed, as metrics label it.
type Purpose string

// The purposes (spec "observability" 3.1, links_total).
const (
	Initial  Purpose = "initial"
	Handoff  Purpose = "handoff"
	Failover Purpose = "failover"
	Reroute  Purpose = "reroute"
	Predial  Purpose = "predial"
)

// Live is what changes of an upstream too often for a View: its slots, its
// counters, and the tip that sessions see on it. All of it is safe for
// concurrent use.
type Live struct {
	links atomic.Int64
	// lastTaken is which one of all the fleet's slots was taken last on this
	// upstream. Fleet.picks guards it.
	lastTaken uint64

	// BlockFailures counts strikes, Stalls links left for owed silence, Jumps
	// forward jumps that were passed on.
	BlockFailures, Stalls, Jumps atomic.Uint64
	// Blocks and Bytes are what was passed on to clients.
	Blocks, Bytes atomic.Uint64
	// WithoutBlock counts results of an archive that lacked a block which was
	// asked for, PrevFilled those that were given the block before.
	WithoutBlock, PrevFilled atomic.Uint64
	// Violations counts results that an archive must not send.
	Violations Labelled[Violation]
	// LinksTotal counts session links that came up; DialFailures those that
	// did not.
	LinksTotal   Labelled[Purpose]
	DialFailures Labelled[dial.Reason]

	// Latency is how long the node takes to answer a status request.
	Latency recent.Latency
	// Errors are the node's failures of the last minute: dials, block failures,
	// and being found dead.
	Errors recent.Errors

	// told is the highest that the node has told of, to its monitor or to a
	// session, since it came online or was set back.
	told tip
	// wake ends the pause of the upstream's monitor.
	wake chan struct{}
}

func newLive() *Live {
	return &Live{
		LinksTotal:   NewLabelled(Initial, Handoff, Failover, Reroute, Predial),
		Violations:   NewLabelled(Violations...),
		DialFailures: NewLabelled(dial.Busy, dial.Unreachable, dial.Handshake, dial.BadABI),
		wake:         make(chan struct{}, 1),
	}
}

// Head is the number of the highest block that the node has told of, to its
// monitor or to a session; 0 before that.
func (l *Live) Head() uint32 { return l.told.headNum() }

// LIB is the number of the highest last irreversible block that the node has told
// of, to its monitor or to a session; 0 before that.
func (l *Live) LIB() uint32 {
	_, lib := l.told.get()
	return lib.Num
}

// Links is how many slots are taken: links, dials in progress, and links that
// have failed and are not replaced yet (G7).
func (l *Live) Links() int64 { return l.links.Load() }

// take takes a slot unless max of them, when not 0, are taken.
func (l *Live) take(max int) bool {
	for {
		n := l.links.Load()
		if max > 0 && n >= int64(max) {
			return false
		}
		if l.links.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Release gives a slot of upstream i back. Sessions that wait for one look
// again (SlotFreed).
func (f *Fleet) Release(i int) {
	u := &f.View().Upstreams[i]
	left := u.Live.links.Add(-1)
	if limit := int64(u.Server.MaxSessions); limit > 0 && left == limit-1 {
		fresh := make(chan struct{})
		close(*f.freed.Swap(&fresh))
	}
}

// SlotFreed is closed when an upstream that was full is no longer. Take it
// before looking for one that is not.
func (f *Fleet) SlotFreed() <-chan struct{} { return *f.freed.Load() }

// Labelled is a counter with one label whose values are known beforehand, so
// that each is there from the start and counting takes no lock.
type Labelled[L ~string] struct {
	values []L
	counts []atomic.Uint64
}

// NewLabelled makes a counter with the given label values.
func NewLabelled[L ~string](values ...L) Labelled[L] {
	return Labelled[L]{values: values, counts: make([]atomic.Uint64, len(values))}
}

// Inc counts one for a label value. It panics for one that was not declared.
func (c *Labelled[L]) Inc(value L) {
	for i, v := range c.values {
		if v == value {
			c.counts[i].Add(1)
			return
		}
	}
	panic("fleet: no such label value: " + string(value))
}

// Each calls f for every label value in the order of declaration.
func (c *Labelled[L]) Each(f func(value L, count uint64)) {
	for i, v := range c.values {
		f(v, c.counts[i].Load())
	}
}
