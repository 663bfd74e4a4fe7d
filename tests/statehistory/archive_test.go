package statehistory

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"flotilla/gateway/ship"
)

// realChain is the chain id that the node told in its status; see testdata.
const realChain = "63732fd01650db40c4fdb2865a9c1c9dfd07dcd93ae4f0851637cd3b06c55eb3"

// realHistory are the options for the real history that is in testdata, as far
// as the last block of which results.bin tells.
func realHistory(t testing.TB) Options {
	t.Helper()
	o := Options{
		Dirs:      []string{"testdata/state-history", "testdata/state-history/retained"},
		BlockDirs: []string{"testdata/blocks"},
		Range:     ship.Range{Begin: 1, End: 20},
		ABI:       []byte(`{"version": "eosio::abi/1.1"}`),
	}
	if n, err := hex.Decode(o.ChainID[:], []byte(realChain)); err != nil || n != len(o.ChainID) {
		t.Fatal(err)
	}
	return o
}

func mustOpen(t testing.TB, o Options) *Archive {
	t.Helper()
	a, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// realResults are the results of blocks 1 and up that the node itself sent.
func realResults(t testing.TB) (results []ship.Block) {
	t.Helper()
	b, err := os.ReadFile("testdata/results.bin")
	if err != nil {
		t.Fatal(err)
	}
	for len(b) > 0 {
		size := binary.LittleEndian.Uint32(b)
		var r ship.Block
		if err := ship.DecodeBlock(b[4:4+size], &r); err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
		b = b[4+size:]
	}
	return results
}

// same fails the test unless two results are the same bytes, head and LIB aside.
func same(t testing.TB, got, want ship.Block) {
	t.Helper()
	got.Head, got.LIB = want.Head, want.LIB
	if g, w := ship.AppendBlock(nil, &got), ship.AppendBlock(nil, &want); !bytes.Equal(g, w) {
		t.Errorf("block %d differs from what the node sent: %d bytes, not %d: %+v, not %+v", want.This.Num, len(g), len(w), got.BlockHeader, want.BlockHeader)
	}
}

func TestArchiveSendsWhatTheNodeSent(t *testing.T) {
	a := mustOpen(t, realHistory(t))
	results := realResults(t)
	if len(results) != 19 {
		t.Fatalf("%d results in testdata", len(results))
	}
	for _, want := range results {
		got, err := a.Result(want.This.Num, &ship.BlocksRequest{FetchBlock: true, FetchTraces: true, FetchDeltas: true})
		if err != nil {
			t.Fatal(err)
		}
		if last := results[18].This; got.Head != last || got.LIB != last {
			t.Errorf("block %d: head %v and LIB %v, want %v", want.This.Num, got.Head, got.LIB, last)
		}
		same(t, *got, want)
	}
}

func TestArchiveOpens(t *testing.T) {
	everything := ship.BlocksRequest{V1: true, FetchBlock: true, FetchTraces: true, FetchDeltas: true, FetchFinality: true}
	chain := id(77)
	// An archive of traces from 3, chain state from 2, finality data from 4 and
	// blocks from 2 to 4, in parts, with one block more than is served.
	layout := func(t *testing.T) Options {
		dir, old := t.TempDir(), t.TempDir()
		makeLog(3, texts("t3", "t4")...).write(t, old, "trace_history-3-4.log")
		makeLog(5, texts("t5", "t6")...).write(t, dir, "trace_history.log")
		makeLog(2, texts("s2", "s3", "s4", "s5", "s6")...).write(t, dir, "chain_state_history.log")
		makeLog(4, texts("f4", "f5", "f6")...).write(t, dir, "finality_data_history.log")
		makeBlockLog(2, chain[:], "b2", "b3").write(t, dir, "blocks-2-3.log")
		makeBlockLog(4, chain[:], "b4").write(t, dir, "blocks.log")
		return Options{Dirs: []string{dir, old}, BlockDirs: []string{dir}, Range: ship.Range{Begin: 3, End: 6}, ChainID: chain, ABI: []byte(`{"version": "eosio::abi/1.1"}`)}
	}
	t.Run("each block with what there is of it", func(t *testing.T) {
		a := mustOpen(t, layout(t))
		for n, want := range map[uint32][4]string{2: {}, 3: {"b3", "t3", "s3", ""}, 4: {"b4", "t4", "s4", "f4"}, 5: {"", "t5", "s5", "f5"}} {
			r, err := a.Result(n, &everything)
			if err != nil {
				t.Fatal(err)
			}
			block := r.Block
			if block != nil {
				block = block[atPrevious+32:]
			}
			if got := [4]string{string(block), string(r.Traces), string(r.Deltas), string(r.Finality)}; got != want {
				t.Errorf("block %d: %q, want %q", n, got, want)
			}
			if inside := n >= 3; r.HasThis != inside || r.HasPrev != inside {
				t.Errorf("block %d: this_block %v, prev_block %v", n, r.HasThis, r.HasPrev)
			}
			if five := (ship.Pos{Num: 5, ID: id(5)}); r.Head != five || r.LIB != five || !r.V1 {
				t.Errorf("block %d: %+v", n, r.BlockHeader)
			}
		}
		_, err := a.Result(6, &everything)
		complains(t, err, "behind the range")
		r, err := a.Result(4, &ship.BlocksRequest{})
		if err != nil || r.V1 || r.Block != nil || r.Traces != nil || r.Deltas != nil || r.Finality != nil {
			t.Errorf("nothing was asked for, but %+v, %v", r, err)
		}
	})
	t.Run("status", func(t *testing.T) {
		a := mustOpen(t, layout(t))
		five := ship.Pos{Num: 5, ID: id(5)}
		want := ship.Status{
			Head: five, LIB: five, HasChainID: true, ChainID: chain,
			Trace: ship.Range{Begin: 3, End: 6}, ChainState: ship.Range{Begin: 3, End: 6},
		}
		if got := a.Status(false); got != want {
			t.Errorf("v0 %+v, want %+v", got, want)
		}
		want.V1, want.Finality = true, ship.Range{Begin: 4, End: 6}
		if got := a.Status(true); got != want {
			t.Errorf("v1 %+v, want %+v", got, want)
		}
	})
	tests := []struct {
		name   string
		change func(t *testing.T, o *Options)
		want   string
	}{
		{"no block log", func(_ *testing.T, o *Options) { o.BlockDirs = nil }, ""},
		{"an empty part, as a new node has it", func(t *testing.T, o *Options) { file{}.write(t, o.Dirs[1], "chain_state_history.log") }, ""},
		{"a file of another name", func(t *testing.T, o *Options) {
			makeLog(9, texts("x")...).write(t, o.Dirs[0], "trace_history.log.old.log")
		}, ""},
		{"chain state alone at the begin", func(_ *testing.T, o *Options) { o.Range.Begin = 2 }, ""},
		{"a folder that is not there", func(_ *testing.T, o *Options) { o.Dirs[0] += "/nowhere" }, "no such file"},
		{"no index", func(t *testing.T, o *Options) { remove(t, o.Dirs[0], "trace_history.index") }, "copy both"},
		{"a damaged log", func(t *testing.T, o *Options) { truncate(t, o.Dirs[0], "trace_history.log") }, "trace_history.log"},
		{"a damaged block log", func(t *testing.T, o *Options) { truncate(t, o.BlockDirs[0], "blocks.log") }, "blocks.log"},
		{"a name that is wrong", func(t *testing.T, o *Options) { makeLog(2, texts("x")...).write(t, o.Dirs[0], "trace_history-1-2.log") }, "not what its name says"},
		{"a number in a name that is none", func(t *testing.T, o *Options) {
			makeLog(2, texts("x")...).write(t, o.Dirs[0], "trace_history-2-99999999999.log")
		}, "not what its name says"},
		{"a hole between parts", func(t *testing.T, o *Options) { makeLog(1, texts("x")...).write(t, o.Dirs[0], "trace_history-1-1.log") }, "ends before block 2, but"},
		{"parts that overlap", func(t *testing.T, o *Options) {
			makeLog(2, texts("x", "y")...).write(t, o.Dirs[0], "trace_history-2-3.log")
		}, "begins with 3"},
		{"another chain", func(_ *testing.T, o *Options) { o.ChainID = id(1) }, "is of chain"},
		{"no ABI", func(_ *testing.T, o *Options) { o.ABI = []byte("hello") }, "the ABI of the archive"},
		{"no range", func(_ *testing.T, o *Options) { o.Range = ship.Range{} }, "no range of blocks"},
		{"a range from below", func(_ *testing.T, o *Options) { o.Range.Begin = 1 }, "no log has block 1"},
		{"a range to above", func(_ *testing.T, o *Options) { o.Range.End = 9 }, "no log has block 7"},
		{"an end that the logs do not agree on", func(t *testing.T, o *Options) {
			f := makeLog(5, texts("t5", "t6")...)
			f.log[8+31]++
			f.write(t, o.Dirs[0], "trace_history.log")
		}, "in another log"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := layout(t)
			tt.change(t, &o)
			a, err := Open(o)
			complains(t, err, tt.want)
			if err == nil {
				complains(t, a.Close(), "")
			}
		})
	}
}

// Logs that were mixed up block by block are found out at that block.
func TestArchiveComparesItsLogs(t *testing.T) {
	dir := t.TempDir()
	makeLog(2, texts("t2", "t3")...).write(t, dir, "trace_history.log")
	blocks := makeBlockLog(2, make([]byte, 32), "b2", "b3")
	blocks.log[len(blocks.log)-offsetSize-len("b3")-1]++ // the last byte of the id before
	blocks.write(t, dir, "blocks.log")
	a := mustOpen(t, Options{Dirs: []string{dir}, BlockDirs: []string{dir}, Range: ship.Range{Begin: 2, End: 4}, ABI: []byte(`{"version": "eosio::abi/1.1"}`)})
	if _, err := a.Result(2, &ship.BlocksRequest{FetchBlock: true}); err != nil {
		t.Error(err)
	}
	if _, err := a.Result(3, &ship.BlocksRequest{FetchTraces: true}); err != nil {
		t.Error(err)
	}
	_, err := a.Result(3, &ship.BlocksRequest{FetchBlock: true})
	complains(t, err, fmt.Sprintf("but the state history has %s there", id(2)))
}

func remove(t testing.TB, dir, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

func truncate(t testing.TB, dir, name string) {
	t.Helper()
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, info.Size()-1); err != nil {
		t.Fatal(err)
	}
}
