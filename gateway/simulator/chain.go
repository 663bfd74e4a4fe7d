package simulator

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"sync"
	"time"

	"flotilla/gateway/ship"
)

// DefaultLIBLag is how far LIB trails the head when ChainOptions says nothing.
const DefaultLIBLag = 12

// ChainOptions describe a made-up chain. The zero value is a usable one.
type ChainOptions struct {
	// Seed decides every id; equal seeds make equal chains.
	Seed string
	// Head is the newest block at the start; 0 is 1.
	Head uint32
	// LIBLag is how many blocks LIB trails the head, 0 is DefaultLIBLag. Use 1
	// for a chain with one producer.
	LIBLag uint32
	// Sizes are the payload bytes of every block.
	Sizes Sizes
}

// Sizes are payload lengths in bytes. A field of length 0 is sent as present
// and empty.
type Sizes struct{ Block, Traces, Deltas, Finality int }

// Chain is a deterministic chain that several nodes share. Block ids and
// payloads follow from the seed, the branch and the number, so nothing is
// stored for a block. All methods may be called from any goroutine.
type Chain struct {
	id     ship.ID
	seed   string
	sizes  Sizes
	libLag uint32

	mu       sync.Mutex
	now      view
	branches int
	changed  chan struct{}
}

// NewChain makes a chain with the blocks 1 to o.Head.
func NewChain(o ChainOptions) *Chain {
	if o.Head == 0 {
		o.Head = 1
	}
	if o.LIBLag == 0 {
		o.LIBLag = DefaultLIBLag
	}
	c := &Chain{
		id: sha256.Sum256([]byte("chain " + o.Seed)), seed: o.Seed, sizes: o.Sizes,
		libLag: o.LIBLag, changed: make(chan struct{}),
	}
	c.now.branches = []branch{{from: 0, key: c.branchKey(0)}}
	c.setHead(o.Head)
	return c
}

// ID is the chain id.
func (c *Chain) ID() ship.ID { return c.id }

// Head is the newest block.
func (c *Chain) Head() ship.Pos { v := c.view(); return v.pos(v.head) }

// LIB is the last irreversible block.
func (c *Chain) LIB() ship.Pos { v := c.view(); return v.pos(v.lib) }

// Pos is block n on the present branch, also for a block not produced yet.
func (c *Chain) Pos(n uint32) ship.Pos { v := c.view(); return v.pos(n) }

// Advance produces n blocks at once.
func (c *Chain) Advance(n uint32) {
	if n == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.setHead(c.now.head + n)
	c.announce()
}

// Fork replaces the blocks from number from on by a new branch up to head. It
// is an error when from is irreversible or above head. A head below the present
// one makes the chain shorter, as the better branch may be.
func (c *Chain) Fork(from, head uint32) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fork(from, head)
}

// Reorg replaces the newest depth blocks and adds one, and returns the first
// block replaced. It is an error when that one is irreversible.
func (c *Chain) Reorg(depth uint32) (from uint32, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if depth == 0 || depth > c.now.head {
		return 0, fmt.Errorf("a fork of %d blocks does not fit a chain of %d", depth, c.now.head)
	}
	from = c.now.head - depth + 1
	return from, c.fork(from, c.now.head+1)
}

// Produce makes a block every interval until ctx ends. Intervals below a
// millisecond come as several blocks a millisecond.
func (c *Chain) Produce(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(max(interval, time.Millisecond))
	defer ticker.Stop()
	start := time.Now()
	var made time.Duration
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			due := time.Since(start) / interval
			c.Advance(uint32(due - made))
			made = due
		}
	}
}

func (c *Chain) fork(from, head uint32) error {
	if from <= c.now.lib {
		return fmt.Errorf("block %d is irreversible (LIB is %d)", from, c.now.lib)
	}
	if from > c.now.head || head < from {
		return errors.New("a fork replaces at least one block and has at least one")
	}
	c.branches++
	keep := sort.Search(len(c.now.branches), func(i int) bool { return c.now.branches[i].from >= from })
	// Views that are out share the old slice, so it is copied, never changed.
	next := append(make([]branch, 0, keep+1), c.now.branches[:keep]...)
	c.now.branches = append(next, branch{from: from, key: c.branchKey(c.branches)})
	c.setHead(head)
	c.announce()
	return nil
}

func (c *Chain) setHead(head uint32) {
	c.now.head = head
	if head > c.libLag {
		c.now.lib = max(c.now.lib, head-c.libLag)
	}
	c.now.lib = max(c.now.lib, 1)
}

func (c *Chain) announce() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Chain) branchKey(n int) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "branch %d of %s", n, c.seed))
}

func (c *Chain) view() view {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// next is closed at the next change of the chain.
func (c *Chain) next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.changed
}

// branch are the blocks from number from on, up to the next branch.
type branch struct {
	from uint32
	key  [32]byte
}

// view is the chain as somebody sees it: immutable once it is handed out.
type view struct {
	head, lib uint32
	// branches are in the order of from, which begins with 0.
	branches []branch
}

func (v *view) pos(n uint32) ship.Pos {
	i := sort.Search(len(v.branches), func(i int) bool { return v.branches[i].from > n }) - 1
	var in [36]byte
	copy(in[:], v.branches[i].key[:])
	binary.BigEndian.PutUint32(in[32:], n)
	id := ship.ID(sha256.Sum256(in[:]))
	binary.BigEndian.PutUint32(id[:], n)
	return ship.Pos{Num: n, ID: id}
}

// firstNew is the lowest block of next that v has not, and whether there is
// one: what a node applies first on the way from v to next.
func (v *view) firstNew(next *view) (n uint32, ok bool) {
	n = v.head + 1
	for i := range max(len(v.branches), len(next.branches)) {
		if i < len(v.branches) && i < len(next.branches) && v.branches[i] == next.branches[i] {
			continue
		}
		if i < len(v.branches) {
			n = min(n, v.branches[i].from)
		}
		if i < len(next.branches) {
			n = min(n, next.branches[i].from)
		}
		break
	}
	return n, n <= next.head
}
