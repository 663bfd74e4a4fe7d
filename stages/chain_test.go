package stages_test

import (
	"slices"

	"pgregory.net/rapid"

	"flotilla/gateway/ship"
	"flotilla/stages/stagetest"
)

// chain is one chain with forks and the nodes that follow it.
//
// It is a row of versions: each takes the place of the one before from one
// block on. Nodes go over to later versions, never back, and may lag behind.
// No node gives up a block that is irreversible.
type chain struct {
	// forks are the first blocks in which a version differs from the one
	// before it.
	forks []uint32
	nodes []*node
}

// node is a node by rules N1 to N4: one session, with one request, one credit
// and one cursor.
type node struct {
	*chain
	version   int
	head, lib uint32
	// old: it sends head keep-alives as EOSIO 2.0 does, and status v0 only.
	old bool

	requested bool
	request   ship.BlocksRequest
	cursor    uint32
	credit    uint32
}

func newChain(t *rapid.T) *chain {
	c := &chain{forks: []uint32{0}}
	for i := range 3 {
		n := &node{chain: c, old: i == 2}
		n.head = rapid.Uint32Range(1, 12).Draw(t, "head")
		n.lib = rapid.Uint32Range(0, n.head).Draw(t, "lib")
		c.nodes = append(c.nodes, n)
	}
	return c
}

func (c *chain) latest() int { return len(c.forks) - 1 }

// at is block n of a version.
func (c *chain) at(version int, n uint32) ship.Pos {
	for version > 0 && n < c.forks[version] {
		version--
	}
	return stagetest.Fork(n, byte(version))
}

// differ is the first block in which two versions may differ.
func (c *chain) differ(earlier, later int) uint32 {
	if earlier == later {
		return 1<<32 - 1
	}
	return slices.Min(c.forks[earlier+1 : later+1])
}

func (c *chain) highest() (head, lib uint32) {
	for _, n := range c.nodes {
		head, lib = max(head, n.head), max(lib, n.lib)
	}
	return head, lib
}

// final is the highest block that may be irreversible: nobody has anything
// else in its place.
func (c *chain) final() uint32 {
	limit := uint32(1<<32 - 1)
	for _, n := range c.nodes {
		if f := c.differ(n.version, c.latest()); n.head >= f {
			limit = min(limit, f-1)
		}
	}
	return limit
}

// follow takes a node on to a version and a head, block by block.
func (n *node) follow(version int, head uint32) {
	first := min(n.differ(n.version, version), n.head+1)
	n.version = version
	for b := first; b <= head; b++ {
		n.head = b
		if n.requested && b < n.cursor {
			n.cursor = b // N4
		}
	}
}

// grow takes a node on by some blocks of some version from its own on.
func (n *node) grow(t *rapid.T) {
	version := rapid.IntRange(n.version, n.latest()).Draw(t, "version")
	_, lib := n.highest()
	// A version is given up for good where another one is irreversible.
	if n.differ(version, n.latest()) <= lib {
		version = n.latest()
	}
	first := min(n.differ(n.version, version), n.head+1)
	n.follow(version, rapid.Uint32Range(first, first+4).Draw(t, "to"))
}

// fork makes a new version and has the node follow it.
func (n *node) fork(t *rapid.T) {
	head, lib := n.highest()
	f := rapid.Uint32Range(lib+1, head+1).Draw(t, "fork")
	n.forks = append(n.forks, f)
	first := min(n.differ(n.version, n.latest()), n.head+1)
	n.follow(n.latest(), rapid.Uint32Range(max(first, f), max(first, f)+4).Draw(t, "to"))
}

// settle raises the node's LIB.
func (n *node) settle(t *rapid.T) {
	if limit := min(n.head, n.final()); limit > n.lib {
		n.lib = rapid.Uint32Range(n.lib, limit).Draw(t, "lib")
	}
}

// take is a request that comes in (N1, N2).
func (n *node) take(q ship.BlocksRequest) {
	n.requested, n.request, n.credit, n.cursor = true, q, q.MaxInFlight, q.Start
	for _, p := range q.Have {
		if p.Num < n.cursor && (p.Num > n.head || p != n.at(n.version, p.Num)) {
			n.cursor = p.Num
		}
	}
}

// send is the next result as bytes, nil when there is none (N3). keepAlive
// allows one without a block.
func (n *node) send(keepAlive bool) []byte {
	if !n.requested || n.credit == 0 {
		return nil
	}
	r := ship.Block{BlockHeader: ship.BlockHeader{V1: n.request.V1, Head: n.at(n.version, n.head), LIB: n.at(n.version, n.lib)}}
	gate := n.head
	if n.request.Irreversible {
		gate = n.lib
	}
	switch {
	case n.cursor <= gate && n.cursor < n.request.End:
		r.HasThis, r.This = true, n.at(n.version, n.cursor)
		r.HasPrev, r.Prev = true, n.at(n.version, n.cursor-1)
		n.cursor++
	case !keepAlive || !n.old:
		return nil
	}
	n.credit--
	return ship.AppendBlock(nil, &r)
}
