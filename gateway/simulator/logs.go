package simulator

import (
	"cmp"
	"math"

	"flotilla/gateway/ship"
)

const (
	// NoLog as the begin of a log: the node does not have that log.
	NoLog = math.MaxUint32
	// ToHead as the end of a log: it grows with the chain.
	ToHead = math.MaxUint32
)

// Logs are the blocks that a node has on disk. An empty range is a log that it
// lacks; a live node reports it as 0, 0 and so does an archive (N7).
type Logs struct {
	Trace, State, Finality ship.Range
	// Block is the block log, which no status tells of.
	Block ship.Range
}

// logsOf are the logs that options ask for.
func logsOf(o *Options) Logs {
	end := cmp.Or(o.End, ToHead)
	from := func(begin uint32) ship.Range {
		if begin >= end {
			return ship.Range{}
		}
		return ship.Range{Begin: begin, End: end}
	}
	return Logs{
		Trace: from(o.TraceBegin), State: from(o.StateBegin),
		Finality: from(o.FinalityBegin), Block: from(o.BlockBegin),
	}
}

// knows reports whether the id of a block is in any of the logs (N3).
func (l *Logs) knows(n uint32) bool {
	return l.Trace.Contains(n) || l.State.Contains(n) || l.Finality.Contains(n) || l.Block.Contains(n)
}

// first is the lowest block of all logs, MaxUint32 when there is none.
func (l *Logs) first() uint32 {
	first := uint32(math.MaxUint32)
	for _, r := range []ship.Range{l.Trace, l.State, l.Finality, l.Block} {
		if !r.Empty() {
			first = min(first, r.Begin)
		}
	}
	return first
}

// last is the last block of an archive with these logs; 0 when it has none.
func (l *Logs) last() uint32 {
	end := max(l.Trace.End, l.State.End, l.Finality.End)
	if end == 0 {
		end = l.Block.End
	}
	return max(end, 1) - 1
}

// reported is a log as a status tells of it.
func reported(log ship.Range, v *view) ship.Range {
	log.End = min(log.End, v.head+1)
	if log.Empty() {
		return ship.Range{}
	}
	return log
}

// Logs are the logs that the node has now.
func (n *Node) Logs() Logs { return n.observe().logs }

// SetLogs exchanges what the node has on disk, as an archive does that gets
// more logs or loses some, and a live node that prunes one. An archive's head
// and LIB follow. Links stay, and their requests go on with the new logs.
func (n *Node) SetLogs(l Logs) {
	chain := n.chain.view()
	n.change(func() {
		n.mood.logs = l
		if n.isArchive() {
			n.seen = archived(chain, &l)
		}
	})
}

// isArchive is whether the node is a frozen range server.
func (n *Node) isArchive() bool { return n.opt.End > 0 }

// archived is the chain as an archive has it: what was copied stays as it was,
// whichever branch the chain follows later, and may be ahead of the chain.
func archived(v view, l *Logs) view {
	v.head = l.last()
	v.lib = v.head
	return v
}
