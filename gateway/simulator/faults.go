package simulator

import (
	"slices"
	"time"
)

// Kind is a way to misbehave.
type Kind int

// The kinds of a Fault that end the link or silence it.
const (
	// Drop ends the link without a Close frame, before the block: what a node
	// does when it finds the block damaged.
	Drop Kind = iota
	// Tear ends the link without a Close frame, in the middle of the block.
	Tear
	// CloseLink ends the link with Close 1000, before the block.
	CloseLink
	// Stall sends no block result For that long, and for ever when it is 0.
	// Pings and status are answered.
	Stall
	// Slow sends each block result from this block on For that long after the
	// one before.
	Slow
	// Silence sends not one byte more on this link, which stays open.
	Silence
	// FreezeNode stops the whole process as Freeze does.
	FreezeNode
	// KillNode ends the whole process as Kill does.
	KillNode

	// The kinds that follow break what an archive promises; the words are those
	// of fleet_router_upstream_contract_violations_total.

	// NoIDs (idless) sends the result of the block without ids and payload.
	NoIDs
	// HeadOnly (idless) sends a result with head and LIB only, at the cost of one
	// credit, before the block. Block may also be the end of the request or of
	// the range, where nothing is due.
	HeadOnly
	// Jump (gap) leaves out Count blocks, this one first.
	Jump
	// Replay (rewind) goes back Count blocks and sends them again.
	Replay
	// Omit (missing_field) leaves Field out.
	Omit
	// Truncate (missing_field) ends the message inside its last field.
	Truncate
	// Overrun (credit) sends the block although there is no credit.
	Overrun
	// Overshoot (variant) sends the block although it is the end of the request,
	// which is over thereby.
	Overshoot
	// OtherVersion (variant) sends a v0 result for a v1 request and the reverse.
	OtherVersion
	// StrayStatus (variant) sends a status that nobody asked for, before the
	// block.
	StrayStatus
	// StrayText (variant) sends a Text message before the block.
	StrayText
	// Garbage (variant) sends a message of no known variant before the block.
	Garbage
	// BreakPrev (discontinuity) gives the block a prev_block that nobody has,
	// also where it would have none. A whole node of another chain is one that
	// is started on another Chain.
	BreakPrev

	// Hasten sends the block without traces and deltas, and then again, whole:
	// some releases do so while they are still writing their logs.
	Hasten

	// The kinds that follow happen when somebody connects; Block is not used.

	// Refuse takes the connection and drops it without an answer. See ClosePort
	// for a port that refuses.
	Refuse
	// Busy answers the handshake with 503.
	Busy
	// LateABI sends the ABI, and anything else, For that long after the
	// handshake; never when it is 0.
	LateABI
	// BadABI sends an ABI that is none.
	BadABI
	// DropIdle ends the link without a Close frame For that long after the
	// handshake, when nothing was asked on it yet: a standby that dies.
	DropIdle
	// SilenceIdle has such a link stay open without a byte more: a standby that
	// dies unnoticed.
	SilenceIdle
)

// moment is when a fault may happen on a link.
type moment int

const (
	dialed moment = iota // at the handshake
	due                  // the block is sent now
	broke                // the block would be sent if there was credit
	past                 // the block is the end of the request, or above the head
	moments
)

// happens are the moments of a kind; all others happen when a block is due.
func (k Kind) happens(m moment) bool {
	switch k {
	case Refuse, Busy, LateABI, BadABI, DropIdle, SilenceIdle:
		return m == dialed
	case Overrun:
		return m == broke
	case Overshoot:
		return m == past
	case HeadOnly:
		return m == due || m == past
	}
	return m == due
}

// Fault makes a node misbehave at a block or a handshake.
type Fault struct {
	Kind Kind
	// Block is where; 0 is the first block of whatever request.
	Block uint32
	// Times is how often in all, over all links; 0 is always. It happens at
	// most once for each time a link gets to the block.
	Times int
	// Count is the number of blocks of a Replay or Jump.
	Count uint32
	// Field is what an Omit leaves out.
	Field Field
	// For is the time of a Stall, Slow, LateABI, DropIdle and SilenceIdle.
	For time.Duration
}

// fault is a Fault that was injected; serial counts them.
type fault struct {
	Fault
	serial uint64
}

// Inject adds a fault. It also strikes links that are at its block already.
func (n *Node) Inject(f Fault) {
	n.change(func() {
		n.injected++
		n.faults = append(n.faults, fault{Fault: f, serial: n.injected})
	})
}

// Heal removes all faults that were injected. What a link suffers from already
// stays with it.
func (n *Node) Heal() {
	n.change(func() { n.faults = nil })
}

// Fired is how often faults of a kind have happened.
func (n *Node) Fired(k Kind) uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.fired[k]
}

func (n *Node) lift(k Kind) {
	n.change(func() {
		n.faults = slices.DeleteFunc(slices.Clone(n.faults), func(f fault) bool { return f.Kind == k })
	})
}

// strike takes the faults of a moment that apply at a block and were injected
// after the fault with that serial. first is whether the block is the first of
// its request. last is the newest serial there is.
func (n *Node) strike(m moment, block uint32, first bool, after uint64) (hit []Fault, last uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	last = n.injected
	if len(n.faults) == 0 || after == last {
		return nil, last
	}
	left := make([]fault, 0, len(n.faults))
	for _, f := range n.faults {
		here := m == dialed || f.Block == block || f.Block == 0 && first
		if here && f.serial > after && f.Kind.happens(m) {
			hit = append(hit, f.Fault)
			n.fired[f.Kind]++
			if f.Times == 1 {
				continue
			}
			f.Times = max(f.Times-1, 0)
		}
		left = append(left, f)
	}
	n.faults = left
	return hit, last
}

// greeting is how a node treats one handshake and the link that comes of it.
type greeting struct {
	refused, busy bool
	abi           []byte
	// abiLate is how late the ABI comes, noABI that it never does.
	abiLate time.Duration
	noABI   bool
	// idle ends or, when mute, silences a link on which nothing is asked for
	// that long; 0 is never.
	idle time.Duration
	mute bool
}

// greet takes the faults of a new connection.
func (n *Node) greet() greeting {
	g := greeting{abi: n.ABI()}
	hit, _ := n.strike(dialed, 0, true, 0)
	for _, f := range hit {
		switch f.Kind {
		case Refuse:
			g.refused = true
		case Busy:
			g.busy = true
		case LateABI:
			g.abiLate, g.noABI = f.For, f.For == 0
		case BadABI:
			g.abi = []byte("no ABI at all")
		case DropIdle, SilenceIdle:
			// At once is as good as it can be, and 0 means never here.
			g.idle, g.mute = max(f.For, 1), f.Kind == SilenceIdle
		}
	}
	return g
}
