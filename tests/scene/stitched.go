package scene

import (
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"
)

// Stitch has the listener present archives and live nodes as one node, with
// the defaults of a fleet-router file.
func (w *World) Stitch() {
	id := [32]byte(w.Chain.ID())
	w.Config.ChainID = &id
	w.Config.Topology = config.TopologyStitched
	w.Config.Stitching = config.Stitching{
		HistoryPreference: "frozen", PredialBlocks: 2000, GapWait: 30 * time.Second, PatchHeadLIB: true, ABIMismatch: "warn",
	}
}

// Archive starts an archive of the blocks [begin, end) and lists it with that
// range in the configuration; change may be nil.
func (w *World) Archive(begin, end uint32, o simulator.Options, change func(*config.Server)) *simulator.Node {
	w.T.Helper()
	o.First, o.End = begin, end
	return w.Node(o, func(s *config.Server) {
		s.Role, s.Range = config.Frozen, &config.Range{Begin: begin, End: end}
		if change != nil {
			change(s)
		}
	})
}

// Whole asks for all parts of the blocks from start on, finality data too.
func Whole(start, end, credit uint32) ship.BlocksRequest {
	q := Everything(start, end, credit)
	q.FetchFinality = true
	return q
}

// Fleet is a range-split fleet: two archived ranges with two replicas each and
// two live nodes that were started from a snapshot, so that the ranges meet
// without an overlap (seed 000 "Cut-over from a snapshot"). Within each pair
// the first is preferred.
type Fleet struct {
	Old, New, Live [2]*simulator.Node
	// Seams are the first blocks of New and of Live; all of it begins at First.
	First uint32
	Seams [2]uint32
}

// Split starts a range-split fleet that begins at block 2, with its seams a
// third and two thirds up the chain. The options are those of all its nodes;
// nil is none.
func (w *World) Split(options func(o *simulator.Options)) *Fleet {
	w.T.Helper()
	w.Stitch()
	third := w.Chain.Head().Num / 3
	f := &Fleet{First: 2, Seams: [2]uint32{third, 2 * third}}
	for i := range uint32(2) {
		prefer := func(s *config.Server) { s.Priority = i }
		var o simulator.Options
		if options != nil {
			options(&o)
		}
		f.Old[i] = w.Archive(f.First, f.Seams[0], o, prefer)
		f.New[i] = w.Archive(f.Seams[0], f.Seams[1], o, prefer)
		o.Snapshot = f.Seams[1] - 1
		f.Live[i] = w.Node(o, prefer)
	}
	return f
}

// Strict are the options of a client that takes nothing but all parts of all
// blocks of the fleet.
func (f *Fleet) Strict() simulator.ClientOptions {
	return simulator.ClientOptions{AckEvery: 1, CheckPayload: true, KeepTimes: true, First: f.First}
}

// Holders are the nodes that have a block, and whether they are archives.
func (f *Fleet) Holders(n uint32) (nodes [2]*simulator.Node, archives bool) {
	switch {
	case n < f.Seams[0]:
		return f.Old, true
	case n < f.Seams[1]:
		return f.New, true
	}
	return f.Live, false
}

// Nodes are all nodes of the fleet.
func (f *Fleet) Nodes() []*simulator.Node {
	return append(append(f.Old[:len(f.Old):len(f.Old)], f.New[:]...), f.Live[:]...)
}
