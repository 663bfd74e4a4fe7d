package frame

import (
	"math/bits"
	"runtime"
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

// kept are a few of the smallest that the collector leaves alone.
var kept = make(chan *[]byte, 64)

// yields is how often takeBuffer lets others go first before it makes a buffer.
// Who makes one may have to wait for the collector; if all who are to read did
// so, thousands of sessions would each make a buffer of their own where a few are
// enough for all of them.
const yields = 4

// class is the index of the smallest size that holds n bytes.
func class(n int) int {
	return max(bits.Len(uint(max(n, 1)-1)), minBufferBits) - minBufferBits
}

// takeBuffer returns a buffer of at least n bytes. It belongs to the caller
// until giveBuffer.
func takeBuffer(n int) *[]byte {
	k := class(n)
	for try := 0; ; try++ {
		if b := spare(k); b != nil {
			return b
		}
		if k > 0 || try == yields {
			b := make([]byte, minBuffer<<k)
			return &b
		}
		runtime.Gosched()
	}
}

// spare is a buffer of a class that nobody uses, nil without one.
func spare(k int) *[]byte {
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
	return nil
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
