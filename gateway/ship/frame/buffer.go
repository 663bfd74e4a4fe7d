package frame

import (
	"math/bits"
	"sync"
)

// Buffers come in powers of two from minBuffer on, so that a link whose blocks
// grow moves from pool to pool and none of them keeps odd sizes.
const (
	minBufferBits = 16
	minBuffer     = 1 << minBufferBits
)

// pools holds spare buffers by size class; the garbage collector empties it.
var pools [32]sync.Pool

// kept are a few of the smallest that the collector leaves alone. Without them,
// when a collection has emptied the pool, every session that is served while it
// goes on makes a buffer of its own: each waits for the collector at that, and
// none has one to give back.
var kept = make(chan *[]byte, 64)

// class is the index of the smallest size that holds n bytes.
func class(n int) int {
	return max(bits.Len(uint(max(n, 1)-1)), minBufferBits) - minBufferBits
}

// takeBuffer returns a buffer of at least n bytes. It belongs to the caller
// until giveBuffer.
func takeBuffer(n int) *[]byte {
	k := class(n)
	if b, ok := pools[k].Get().(*[]byte); ok {
		return b
	}
	if k == 0 {
		select {
		case b := <-kept:
			return b
		default:
		}
	}
	b := make([]byte, minBuffer<<k)
	return &b
}

func giveBuffer(b *[]byte) {
	if len(*b) == minBuffer && len(kept) < cap(kept) {
		select {
		case kept <- b:
			return
		default:
		}
	}
	pools[class(len(*b))].Put(b)
}
