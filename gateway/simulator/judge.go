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
	// Pongs are the answers to Ping.
	Pongs uint64

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
	// Corrupt are payloads of other bytes than a Node makes, when checked.
	Corrupt uint64
	// Unknown are messages that are neither a block result nor a status.
	Unknown uint64

	// Last is the last block; Head and LIB are the highest that were sent.
	Last, Head, LIB ship.Pos
	// LongestSilence is the longest time between two block results, or since
	// the last, while blocks were asked for and there was credit.
	LongestSilence time.Duration
}

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
		{"changed payloads", r.Corrupt}, {"unknown messages", r.Unknown},
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
	asked        bool
	irreversible bool
	expected     uint32
	end          uint32
	credit       uint64
	received     uint64
	// ids are the blocks sent, without a hole, the first of them number base.
	ids  []ship.ID
	base uint32
	// last is when the last block result came; zero while nothing is owed.
	last time.Time
}

// maxIDs bounds the memory of blocks; those above LIB are kept in any case.
const maxIDs = 1 << 14

func (j *judge) ask(q *ship.BlocksRequest) {
	j.asked, j.irreversible = true, q.Irreversible
	j.expected, j.end, j.credit = q.Start, q.End, uint64(q.MaxInFlight)
	j.forget(q.Start)
	j.last = time.Time{}
}

func (j *judge) ack(n uint32) {
	if j.asked {
		j.credit += uint64(n)
	}
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
	if j.credit > 0 && j.expected < j.end {
		j.last = now
	}
}

func (j *judge) blank(r *ship.BlockHeader) {
	gate := r.Head.Num
	if j.irreversible {
		gate = r.LIB.Num
	}
	if j.expected > gate || j.expected >= j.end {
		j.KeepAlives++
		return
	}
	j.IDless++
	j.ids = nil
	j.expected++
}

// place compares a block with what was sent before. lib is the LIB before it.
func (j *judge) place(r *ship.BlockHeader, lib uint32) {
	n := r.This.Num
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
	if id, ok := j.id(n - 1); ok && r.HasPrev && (r.Prev.ID != id || r.Prev.Num != n-1) {
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
