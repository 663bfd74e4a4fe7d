package statehistory

import (
	"errors"
	"fmt"

	"flotilla/gateway/ship"
)

// Options say what an Archive is made of.
type Options struct {
	// Dirs are the folders with state-history logs: those that nodeos calls
	// state-history, retained and archive, or copies of them.
	Dirs []string
	// BlockDirs are the same for the block log. None: the archive has no blocks.
	BlockDirs []string
	// Range is what is served of all that is there. It should end at or below the
	// block that was irreversible when the logs were copied; blocks above may be
	// of a branch that the chain has left.
	Range ship.Range
	// ChainID is that of the chain. When there is a block log it must have the
	// same one.
	ChainID ship.ID
	// ABI is the first message of the nodes that wrote the logs.
	ABI []byte
}

// Archive is a fixed range of blocks that were read from the logs of a nodeos.
// Its methods may be called from any goroutine. Close it to close the files.
type Archive struct {
	abi        *ship.ABI
	chain      ship.ID
	served     ship.Range
	traces     parts[*Log]
	chainState parts[*Log]
	finality   parts[*Log]
	blocks     parts[*BlockLog]
	last       ship.Pos
}

// Open opens the logs. It is an error when they do not hold the whole range,
// each block of it in one log at least, or are of different chains.
func Open(o Options) (*Archive, error) {
	a := &Archive{chain: o.ChainID, served: o.Range}
	if err := a.open(&o); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	return a, nil
}

func (a *Archive) open(o *Options) (err error) {
	if a.abi, err = ship.ParseABI(o.ABI); err != nil {
		return fmt.Errorf("the ABI of the archive: %w", err)
	}
	if a.traces, err = openParts("trace_history", o.Dirs, OpenLog); err != nil {
		return err
	}
	if a.chainState, err = openParts("chain_state_history", o.Dirs, OpenLog); err != nil {
		return err
	}
	if a.finality, err = openParts("finality_data_history", o.Dirs, OpenLog); err != nil {
		return err
	}
	if a.blocks, err = openParts("blocks", o.BlockDirs, OpenBlockLog); err != nil {
		return err
	}
	for _, b := range a.blocks {
		if b.ChainID() != a.chain {
			return fmt.Errorf("%s is of chain %s, not of %s", b.Name(), b.ChainID(), a.chain)
		}
	}
	if a.served.Begin < 1 || a.served.Empty() {
		return fmt.Errorf("[%d,%d) is no range of blocks", a.served.Begin, a.served.End)
	}
	// A log is one run of blocks, so what the logs hold together has a hole only
	// where none of them has the block behind the end of another.
	for n := a.served.Begin; n < a.served.End; {
		end := n
		for _, l := range []parts[*Log]{a.traces, a.chainState, a.finality} {
			if r := l.Range(); r.Contains(n) {
				end = max(end, r.End)
			}
		}
		if end == n {
			return fmt.Errorf("no log has block %d of the range [%d,%d): traces are there for %v, chain state for %v",
				n, a.served.Begin, a.served.End, a.traces.Range(), a.chainState.Range())
		}
		n = end
	}
	a.last, _, err = a.position(a.served.End - 1)
	return err
}

// Close closes all files.
func (a *Archive) Close() error {
	return errors.Join(a.traces.Close(), a.chainState.Close(), a.finality.Close(), a.blocks.Close())
}

// ABI is the first message to a client.
func (a *Archive) ABI() []byte { return a.abi.Text }

// Range is the blocks that are served.
func (a *Archive) Range() ship.Range { return a.served }

// Status is the answer to a status request of some version.
func (a *Archive) Status(v1 bool) ship.Status {
	s := ship.Status{
		V1: v1, Head: a.last, LIB: a.last, HasChainID: true, ChainID: a.chain,
		Trace: a.clip(a.traces.Range()), ChainState: a.clip(a.chainState.Range()),
	}
	if v1 {
		s.Finality = a.clip(a.finality.Range())
	}
	return s
}

// clip is the part of a log that is served; an absent one is 0, 0.
func (a *Archive) clip(log ship.Range) ship.Range {
	r := ship.Range{Begin: max(log.Begin, a.served.Begin), End: min(log.End, a.served.End)}
	if r.Begin >= r.End {
		return ship.Range{}
	}
	return r
}

// Result is the answer to request q for block n. The blocks below the range
// have results with head and LIB alone; those behind it have none and are an
// error, as is damage in a log.
func (a *Archive) Result(n uint32, q *ship.BlocksRequest) (*ship.Block, error) {
	r := &ship.Block{BlockHeader: ship.BlockHeader{V1: q.V1, Head: a.last, LIB: a.last}}
	if n < a.served.Begin {
		return r, nil
	}
	if n >= a.served.End {
		return nil, fmt.Errorf("block %d is behind the range [%d,%d)", n, a.served.Begin, a.served.End)
	}
	var err error
	if r.This, r.HasThis, err = a.position(n); err != nil {
		return nil, err
	}
	// The logs may hold the block before the range, which is then sent as well.
	if r.Prev, r.HasPrev, err = a.position(n - 1); err != nil {
		return nil, err
	}
	if q.FetchTraces {
		if r.Traces, err = dataOf(a.traces, n); err != nil {
			return nil, err
		}
	}
	if q.FetchDeltas {
		if r.Deltas, err = dataOf(a.chainState, n); err != nil {
			return nil, err
		}
	}
	if q.FetchFinality {
		if r.Finality, err = dataOf(a.finality, n); err != nil {
			return nil, err
		}
	}
	if q.FetchBlock {
		r.Block, err = a.block(n, r)
	}
	return r, err
}

// dataOf is what a log has of block n, or nil.
func dataOf(log parts[*Log], n uint32) ([]byte, error) {
	l, ok := log.at(n)
	if !ok {
		return nil, nil
	}
	_, data, err := l.Data(n)
	return data, err
}

// block is block n, which must follow on r.Prev, or nil.
func (a *Archive) block(n uint32, r *ship.Block) ([]byte, error) {
	b, ok := a.blocks.at(n)
	if !ok {
		return nil, nil
	}
	previous, block, err := b.Block(n)
	if err == nil && r.HasPrev && previous != r.Prev.ID {
		err = fmt.Errorf("%s: block %d follows %s, but the state history has %s there", b.Name(), n, previous, r.Prev.ID)
	}
	return block, err
}

// position is the number and id of a block, from every log that has it.
func (a *Archive) position(n uint32) (p ship.Pos, ok bool, err error) {
	p.Num = n
	for _, log := range []parts[*Log]{a.traces, a.chainState, a.finality} {
		l, has := log.at(n)
		if !has {
			continue
		}
		id, err := l.ID(n)
		if err != nil {
			return p, false, err
		}
		if ok && id != p.ID {
			return p, false, fmt.Errorf("%s: block %d has the id %s, and %s in another log", l.Name(), n, id, p.ID)
		}
		p.ID, ok = id, true
	}
	return p, ok, nil
}
