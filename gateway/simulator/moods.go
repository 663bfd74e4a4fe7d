package simulator

import "flotilla/gateway/ship"

// DropLinks ends every connection without a Close frame; the node stays up.
func (n *Node) DropLinks() { n.drop(func(*session) bool { return true }) }

// DropReaders does so with the links that have asked for blocks. Links that ask
// for a status only stay, so the node is not taken for offline.
func (n *Node) DropReaders() {
	n.drop(func(s *session) bool { return s != nil && s.asked.Load() })
}

// DropStandbys does so with the links that have asked for nothing at all.
func (n *Node) DropStandbys() {
	n.drop(func(s *session) bool { return s != nil && !s.spoke.Load() })
}

// drop ends the connections that which picks; it gets nil for one without a
// handshake.
func (n *Node) drop(which func(*session) bool) {
	n.mu.Lock()
	conns := make([]*conn, 0, len(n.conns))
	for c, s := range n.conns {
		if which(s) {
			conns = append(conns, c)
		}
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

// Busy answers new handshakes with 503; see the fault of that name for some.
func (n *Node) Busy(on bool) {
	n.lift(Busy)
	if on {
		n.Inject(Fault{Kind: Busy})
	}
}

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

// SetABI changes the first message of new links; see ABIWith.
func (n *Node) SetABI(text []byte) { n.change(func() { n.mood.abi = text }) }

// SetChainID changes the chain id of status results.
func (n *Node) SetChainID(id ship.ID) { n.change(func() { n.mood.chainID = id }) }

func (n *Node) change(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
	n.announceLocked()
}
