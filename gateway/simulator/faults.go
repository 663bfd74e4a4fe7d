package simulator

import "flotilla/gateway/ship"

// Kind is a way to misbehave at one block.
type Kind int

// The kinds of a Fault.
const (
	// Drop ends the link without a Close frame, before the block.
	Drop Kind = iota
	// Tear ends the link without a Close frame, in the middle of the block.
	Tear
	// CloseLink ends the link with Close 1000, before the block.
	CloseLink
	// Replay goes back Count blocks and sends them again.
	Replay
	// Jump leaves out Count blocks, this one first.
	Jump
	// BreakPrev gives the block a prev_block that nobody has.
	BreakPrev
	// Hasten sends the block without traces and deltas, and then again, whole:
	// some releases do so while they are still writing their logs.
	Hasten
	// Garbage sends a message of no known variant before the block.
	Garbage
)

// Fault makes a node misbehave at a block.
type Fault struct {
	Kind Kind
	// Block is where; 0 is the first block of whatever request.
	Block uint32
	// Times is how often in all, over all links; 0 is always. It happens at
	// most once for each time a link gets to the block.
	Times int
	// Count is the number of blocks of a Replay or Jump.
	Count uint32
}

// Inject adds a fault.
func (n *Node) Inject(f Fault) {
	n.change(func() { n.faults = append(n.faults, f) })
}

// Heal removes all faults that were injected.
func (n *Node) Heal() {
	n.change(func() { n.faults = nil })
}

// strike takes the faults that apply at a block.
func (n *Node) strike(block uint32, first bool) (hit []Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.faults) == 0 {
		return nil
	}
	var left []Fault
	for _, f := range n.faults {
		if f.Block == block || f.Block == 0 && first {
			hit = append(hit, f)
			if f.Times == 1 {
				continue
			}
			f.Times = max(f.Times-1, 0)
		}
		left = append(left, f)
	}
	n.faults = left
	return hit
}

// DropLinks ends every connection without a Close frame; the node stays up.
func (n *Node) DropLinks() {
	n.mu.Lock()
	conns := make([]*conn, 0, len(n.conns))
	for c := range n.conns {
		conns = append(conns, c)
	}
	n.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// CloseCleanly ends every link with a Close frame (1000) after the results
// being sent; the node stays up. Follow it by Kill for a node that goes away
// cleanly.
func (n *Node) CloseCleanly() {
	n.mu.Lock()
	var open []*session
	for _, s := range n.conns {
		if s != nil {
			open = append(open, s)
		}
	}
	n.mu.Unlock()
	for _, s := range open {
		s.sayBye(closeNormal)
	}
}

// Freeze stops the process: sockets stay and connections are taken, but nothing
// is read, sent or answered until Thaw. What is in the middle of being sent
// may still arrive.
func (n *Node) Freeze() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.frozen {
		n.frozen, n.thawed = true, make(chan struct{})
	}
}

// Thaw ends a Freeze.
func (n *Node) Thaw() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.frozen {
		n.frozen = false
		close(n.thawed)
	}
}

func (n *Node) whenThawed() <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.thawed
}

// Stall stops or resumes block results; pings and status are answered.
func (n *Node) Stall(on bool) { n.change(func() { n.mood.stall = on }) }

// Mute stops or resumes status results. What was asked meanwhile is answered
// when it ends.
func (n *Node) Mute(on bool) { n.change(func() { n.mood.mute = on }) }

// Busy answers new handshakes with 503.
func (n *Node) Busy(on bool) { n.change(func() { n.mood.busy = on }) }

// Hang takes TCP connections but answers no handshake while it is on.
func (n *Node) Hang(on bool) { n.change(func() { n.mood.hang = on }) }

// Lag keeps the node this many blocks behind the chain. Its head does not go
// back for it: it waits until the chain is that far ahead.
func (n *Node) Lag(blocks uint32) { n.change(func() { n.mood.lag = blocks }) }

// Pin keeps the node at its present head and branch, or ends that.
func (n *Node) Pin(on bool) {
	n.observe()
	n.change(func() { n.mood.pinned = on })
}

// SetChainID changes the chain id of status results.
func (n *Node) SetChainID(id ship.ID) { n.change(func() { n.mood.chainID = id }) }

func (n *Node) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	n.announceLocked()
}
