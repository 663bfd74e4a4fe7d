package simulator

import (
	"fmt"
	"strings"
	"time"

	"flotilla/gateway/ship"
)

// Report is what a Client has seen and what it thinks of it.
type Report struct {
	// Blocks are the results with a block; KeepAlives and IDless those without
	// (spec "ship" S22: an id-less one stands for a block, the other does not).
	Blocks, IDless, KeepAlives uint64
	// Forks are the blocks with a number below the expected one that were not
	// sent before: the first blocks of another branch.
	Forks uint64
	// Pongs are the answers to Ping, Pings those of the server.
	Pongs, Pings uint64

	// What follows is never sent by a correct endpoint in front of live nodes,
	// HeadBacks aside, which a single node sends at a fork.

	// Duplicates are blocks sent again with the same number and id, and blocks
	// at or below a LIB that was sent.
	Duplicates uint64
	// Gaps are the times that blocks were left out, Missing how many they were.
	Gaps, Missing uint64
	// BrokenLinks are the blocks whose prev_block is not what was sent before.
	BrokenLinks uint64
	// HeadBacks and LIBBacks are how often head and LIB fell.
	HeadBacks, LIBBacks uint64
	// Overruns are block results without credit.
	Overruns uint64
	// Beyond are blocks at or above the end of the request.
	Beyond uint64
	// Corrupt are payloads of other bytes than a Node makes, when checked.
	Corrupt uint64
	// Unknown are messages that are neither a block result nor a status.
	Unknown uint64
	// OtherVersions are block results and statuses of another version than was
	// asked for, Unasked the statuses that nobody asked for.
	OtherVersions, Unasked uint64
	// Lacking are the blocks without a part that was asked for, unless
	// ClientOptions.MayLack has it.
	Lacking Lacking
	// Early are blocks with an id below ClientOptions.First, Nameless results
	// without one from there on.
	Early, Nameless uint64

	// NoPrevs are the blocks without prev_block that follow one that was sent.
	// They are no fault: a live node has none at its first block.
	NoPrevs uint64

	// Last is the last block; Head and LIB are the highest that were sent.
	Last, Head, LIB ship.Pos
	// LongestSilence is the longest time between two block results, or since
	// the last, while blocks were asked for and there was credit.
	LongestSilence time.Duration
}

// Lacking counts blocks by the part that they lack.
type Lacking struct{ Block, Traces, Deltas, Finality uint64 }

// Err is an error that names everything a correct endpoint would not have
// sent, or nil.
func (r Report) Err() error {
	var found []string
	for _, f := range []struct {
		what  string
		count uint64
	}{
		{"blocks sent twice", r.Duplicates}, {"gaps", r.Gaps}, {"blocks that do not link to the one before", r.BrokenLinks},
		{"falls of head", r.HeadBacks}, {"falls of LIB", r.LIBBacks}, {"results beyond the credit", r.Overruns},
		{"blocks beyond the end", r.Beyond}, {"changed payloads", r.Corrupt}, {"unknown messages", r.Unknown},
		{"results of another version", r.OtherVersions}, {"statuses that were not asked for", r.Unasked},
		{"results without the block", r.Lacking.Block}, {"results without traces", r.Lacking.Traces},
		{"results without deltas", r.Lacking.Deltas}, {"results without finality data", r.Lacking.Finality},
		{"ids below the first block", r.Early}, {"results without ids", r.Nameless},
	} {
		if f.count > 0 {
			found = append(found, fmt.Sprintf("%s: %d", f.what, f.count))
		}
	}
	if found == nil {
		return nil
	}
	return fmt.Errorf("the stream is wrong; %s", strings.Join(found, ", "))
}

// judge checks a stream result by result.
type judge struct {
	Report
	// first and mayLack are the client's options.
	first   uint32
	mayLack ship.Parts

	asked    bool
	req      ship.BlocksRequest
	statuses []bool // that are owed, true is v1
	expected uint32
	credit   uint64
	received uint64
	// ids are the blocks sent, without a hole, the first of them number base.
	ids  []ship.ID
	base uint32
	// last is when the last block result came; zero while nothing is owed.
	last time.Time
}

// maxIDs bounds the memory of blocks; those above LIB are kept in any case.
const maxIDs = 1 << 14

func (j *judge) ask(q *ship.BlocksRequest) {
	j.asked, j.req = true, *q
	j.req.Have = nil
	j.expected, j.credit = q.Start, uint64(q.MaxInFlight)
	j.forget(q.Start)
	j.last = time.Time{}
}

func (j *judge) ack(n uint32) {
	if j.asked {
		j.credit += uint64(n)
	}
}

// status judges a status result.
func (j *judge) status(s *ship.Status) {
	switch {
	case len(j.statuses) == 0:
		j.Unasked++
	default:
		if j.statuses[0] != s.V1 {
			j.OtherVersions++
		}
		j.statuses = j.statuses[1:]
	}
	j.tip(s.Head, s.LIB)
}

// shape judges a block result apart from its place in the stream.
func (j *judge) shape(r *ship.Block) {
	if j.asked && r.V1 != j.req.V1 {
		j.OtherVersions++
	}
	if !r.HasThis {
		return
	}
	lacks := func(count *uint64, asked, may bool, field []byte) {
		if asked && !may && field == nil {
			*count++
		}
	}
	q, may := &j.req, &j.mayLack
	lacks(&j.Lacking.Block, q.FetchBlock, may.Block, r.Block)
	// Nobody has traces of block 1.
	lacks(&j.Lacking.Traces, q.FetchTraces && r.This.Num > 1, may.Traces, r.Traces)
	lacks(&j.Lacking.Deltas, q.FetchDeltas, may.Deltas, r.Deltas)
	lacks(&j.Lacking.Finality, q.V1 && q.FetchFinality, may.Finality, r.Finality)
}

func (j *judge) tip(head, lib ship.Pos) {
	if head.Num < j.Head.Num {
		j.HeadBacks++
	} else {
		j.Head = head
	}
	if lib.Num < j.LIB.Num {
		j.LIBBacks++
	} else {
		j.LIB = lib
	}
}

func (j *judge) block(r *ship.BlockHeader, now time.Time) {
	j.received++
	j.LongestSilence = j.silence(now)
	if j.credit == 0 {
		j.Overruns++
	} else {
		j.credit--
	}
	lib := j.LIB.Num
	j.tip(r.Head, r.LIB)
	if r.HasThis {
		j.Blocks++
		j.place(r, lib)
	} else {
		j.blank(r)
	}
	j.last = time.Time{}
	if j.credit > 0 && j.expected < j.req.End {
		j.last = now
	}
}

func (j *judge) blank(r *ship.BlockHeader) {
	gate := r.Head.Num
	if j.req.Irreversible {
		gate = r.LIB.Num
	}
	if j.expected > gate || j.expected >= j.req.End {
		j.KeepAlives++
		return
	}
	j.IDless++
	if j.first > 0 && j.expected >= j.first {
		j.Nameless++
	}
	j.ids = nil
	j.expected++
}

// place compares a block with what was sent before. lib is the LIB before it.
func (j *judge) place(r *ship.BlockHeader, lib uint32) {
	n := r.This.Num
	if n < j.first {
		j.Early++
	}
	if n >= j.req.End {
		j.Beyond++
	}
	switch {
	case n > j.expected:
		j.Gaps++
		j.Missing += uint64(n - j.expected)
		j.ids = nil
	case n < j.expected:
		if id, ok := j.id(n); ok && id == r.This.ID || len(j.ids) > 0 && n <= lib {
			// It changes nothing, so that each repeated block counts once.
			j.Duplicates++
			return
		}
		j.Forks++
		j.forget(n)
	}
	switch id, ok := j.id(n - 1); {
	case ok && !r.HasPrev:
		j.NoPrevs++
	case ok && (r.Prev.ID != id || r.Prev.Num != n-1):
		j.BrokenLinks++
	}
	if len(j.ids) == 0 {
		j.base = n
	}
	j.ids = append(j.ids, r.This.ID)
	j.expected, j.Last = n+1, r.This
	if len(j.ids) > maxIDs && j.LIB.Num > j.base {
		old := min(int(j.LIB.Num-j.base), len(j.ids)-1)
		j.ids = append(j.ids[:0], j.ids[old:]...)
		j.base += uint32(old)
	}
}

func (j *judge) id(n uint32) (ship.ID, bool) {
	if n < j.base || n-j.base >= uint32(len(j.ids)) {
		return ship.ID{}, false
	}
	return j.ids[n-j.base], true
}

// forget drops the blocks from number n on.
func (j *judge) forget(n uint32) {
	if n <= j.base {
		j.ids = nil
	} else if keep := n - j.base; keep < uint32(len(j.ids)) {
		j.ids = j.ids[:keep]
	}
}

func (j *judge) silence(now time.Time) time.Duration {
	if j.last.IsZero() {
		return j.LongestSilence
	}
	return max(j.LongestSilence, now.Sub(j.last))
}

func (j *judge) reportAt(now time.Time) Report {
	r := j.Report
	r.LongestSilence = j.silence(now)
	return r
}
