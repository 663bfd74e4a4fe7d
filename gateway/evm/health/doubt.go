package health

// Witness is what is known when a node reports a height that nobody else may
// have.
type Witness struct {
	// Others are the heights of the other nodes that are believed.
	Others []uint64
	// Reference is the height of the reference; nil when there is none.
	Reference *uint64
	// Before is what the node itself reported last.
	Before uint64
	// Vouched is true for a node that has been near another one before, Doubted
	// for one that is being doubted.
	Vouched, Doubted bool
	// OthersStand is true when the others have not moved for a long time.
	OthersStand bool
}

// Near reports whether somebody else is no further than limit below a height.
func (w *Witness) Near(height, limit uint64) bool {
	for _, other := range w.Others {
		if other+limit >= height {
			return true
		}
	}
	return w.Reference != nil && *w.Reference+limit >= height
}

// Doubtful reports whether a height is not to be believed: nobody else comes
// near it, and the node has not got there block by block. Limit is how many
// blocks are near. A node that is alone, or one of two that have never agreed,
// is believed: there is no telling who is right.
func (w *Witness) Doubtful(height, limit uint64) bool {
	grew := w.Before > 0 && height >= w.Before && height-w.Before <= limit
	switch {
	case len(w.Others) == 0 || w.Near(height, limit):
		return false
	case w.OthersStand && grew && height > w.Before:
		return false
	case w.Doubted:
		return true
	case w.Vouched:
		return !grew
	default:
		return w.others(limit) >= 2
	}
}

// others is the size of the largest group of other nodes that are near each
// other.
func (w *Witness) others(limit uint64) (most int) {
	for _, a := range w.Others {
		count := 0
		for _, b := range w.Others {
			if b <= a && a-b <= limit {
				count++
			}
		}
		most = max(most, count)
	}
	return most
}

// recent is how many blocks a History holds.
const recent = 64

// History is the hashes of the blocks that a node had as its head lately.
type History struct {
	blocks [recent]block
}

type block struct {
	number uint64
	hash   string
}

// Add notes a head. Blocks of an older branch above it stay until their number
// comes again.
func (h *History) Add(number uint64, hash string) {
	h.blocks[number%recent] = block{number, hash}
}

// settledDepth is how far below its head nodes agree, as a rule.
const settledDepth = 2

// Compare looks for the newest block that both nodes have had, which is at
// least two below top. Known is false when there is none.
func (h *History) Compare(o *History, top uint64) (same, known bool) {
	best := uint64(0)
	for i := range h.blocks {
		a, b := &h.blocks[i], &o.blocks[i]
		if a.hash == "" || a.number != b.number || b.hash == "" || a.number+settledDepth > top || a.number < best {
			continue
		}
		best, same, known = a.number, a.hash == b.hash, true
	}
	return same, known
}
