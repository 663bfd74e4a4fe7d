//go:build nodeos

package nodeos

import (
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flotilla/gateway/ship"
	"flotilla/tests/statehistory"
)

// History is a chain with a past that is split as an operator splits it (seed
// 000 "Cut-over from a snapshot"): one node was stopped and its logs are served
// by archives, up to the block of a snapshot that a live node began with.
type History struct {
	*Fleet
	// Whole is a live node that has all blocks, and Joined the one that began
	// with a snapshot. They are the fleet's relays.
	Whole, Joined *Node
	// Split is the node that was stopped, and Seam the first block that is in its
	// archived files no longer, but in those that it retained.
	Split *Node
	Seam  uint32
	// Snapshot is the block of the snapshot, the last one of the archives.
	Snapshot uint32
	// Last is a block behind it that is irreversible for all live nodes.
	Last    uint32
	ChainID ship.ID
	// ABI is what the nodes greet their clients with.
	ABI []byte
}

// stride is how many blocks the nodes put into one file.
const stride = 100

// splitArgs let a node put its logs into one file per stride, and keep two of
// each beside the newest. The others are moved to folders called archive.
var splitArgs = []string{
	"--state-history-stride", fmt.Sprint(stride), "--max-retained-history-files", "2", "--state-history-archive-dir", "archive",
	"--blocks-log-stride", fmt.Sprint(stride), "--max-retained-block-files", "2", "--blocks-archive-dir", "archive",
}

// NewHistory makes a chain of some blocks with transactions, which are made in
// no time, splits it, and lets it go on at its usual pace. Its live nodes run.
func NewHistory(t testing.TB, blocks uint32) *History {
	t.Helper()
	f := newFleet(t, "whole", "joined", "split")
	h := &History{Fleet: f, Whole: f.Relays[0], Joined: f.Relays[1], Split: f.Relays[2]}
	f.Relays = f.Relays[:2]

	// The clock must not reach the present before the blocks are made, and a
	// transaction may not live for more than an hour.
	f.Producer.clock = newClock(t, time.Now().Add(-50*time.Minute), 25)
	f.Producer.Args = producerAPI
	f.Producer.Start(t)
	h.fill(t, blocks)
	f.Producer.Stop(t)
	f.Producer.clock = nil
	f.Producer.Start(t)
	h.StartWorkload(t)

	h.Split.Args = splitArgs
	h.Split.Start(t)
	h.Whole.Start(t)
	h.awayFromStride(t)
	h.Joined.Snapshot, h.Snapshot = f.Producer.CreateSnapshot(t)
	h.Joined.Start(t)
	h.Last = h.Snapshot + 4
	for _, n := range []*Node{h.Split, h.Whole, h.Joined} {
		n.WaitBlock(t, h.Last+2) // which makes Last irreversible
	}
	h.Split.Stop(t)
	h.Seam = (h.Snapshot/stride-2)*stride + 1

	info, err := f.Producer.Info()
	if err != nil {
		t.Fatal(err)
	}
	id, err := hex.DecodeString(info.ChainID)
	if err != nil || copy(h.ChainID[:], id) != len(h.ChainID) {
		t.Fatalf("chain id %q: %v", info.ChainID, err)
	}
	c := Dial(t, h.Whole.SHiP)
	h.ABI = c.ABI
	c.Close()
	return h
}

// awayFromStride waits for a block after which the split node can be stopped with
// all its logs split at the same blocks: the block log waits for blocks to be
// irreversible, and stopping takes some seconds.
func (h *History) awayFromStride(t testing.TB) {
	t.Helper()
	h.Split.waitUntil(t, "get away from the end of a file", func() bool {
		info, err := h.Split.Info()
		return err == nil && info.Head%stride >= 10 && info.Head%stride <= 60
	})
}

// fill pushes transactions until the producer has made some blocks: new
// accounts, and now and then an ABI of up to bigABI random bytes.
func (h *History) fill(t testing.TB, blocks uint32) {
	t.Helper()
	pushed, head := 0, uint32(0)
	for i := 0; head < blocks; i++ {
		info, err := h.Producer.Info()
		if err != nil {
			t.Fatal(err)
		}
		head = info.Head
		chainID, err := hex.DecodeString(info.ChainID)
		if err != nil {
			t.Fatal(err)
		}
		a := newAccount(randomName())
		switch {
		case i%200 == 50:
			a = setABI("eosio", randomBytes(bigABI))
		case i%10 == 5:
			a = setABI("eosio", randomBytes(1000))
		}
		// Some come too late for a block that lasts 20 ms, and are lost.
		if push(h.Producer, chainID, a) == nil {
			pushed++
		}
	}
	if pushed < int(blocks)/10 {
		t.Fatalf("only %d transactions were taken for %d blocks", pushed, blocks)
	}
}

// Archived opens the blocks below the seam: what the split node has archived.
func (h *History) Archived(t testing.TB) *statehistory.Archive {
	t.Helper()
	return h.open(t, statehistory.Options{
		Dirs:      []string{h.folder("state-history", "archive")},
		BlockDirs: []string{h.folder("blocks", "archive")},
		Range:     ship.Range{Begin: 1, End: h.Seam},
	})
}

// Damaged opens a copy of the same files in which one byte of the traces of a
// block is wrong. The block is one of the second file.
func (h *History) Damaged(t testing.TB, block uint32) *statehistory.Archive {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(h.folder("state-history", "archive"))); err != nil {
		t.Fatal(err)
	}
	const first = stride + 1
	name := filepath.Join(dir, fmt.Sprintf("trace_history-%d-%d", first, 2*stride))
	index, err := os.ReadFile(name + ".index")
	if err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(name+".log", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	// The last byte of the compressed data is a part of its checksum.
	end := int64(binary.LittleEndian.Uint64(index[(block+1-first)*8:])) - 8
	var b [1]byte
	if _, err := log.ReadAt(b[:], end-1); err != nil {
		t.Fatal(err)
	}
	b[0]++
	if _, err := log.WriteAt(b[:], end-1); err != nil {
		t.Fatal(err)
	}
	return h.open(t, statehistory.Options{
		Dirs:      []string{dir},
		BlockDirs: []string{h.folder("blocks", "archive")},
		Range:     ship.Range{Begin: 1, End: h.Seam},
	})
}

// Retained opens the blocks from the seam to the snapshot: what the split node
// had not archived yet.
func (h *History) Retained(t testing.TB) *statehistory.Archive {
	t.Helper()
	return h.retained(t, h.folder("blocks"))
}

// RetainedWithoutBlocks is Retained without its block log.
func (h *History) RetainedWithoutBlocks(t testing.TB) *statehistory.Archive {
	t.Helper()
	return h.retained(t)
}

func (h *History) retained(t testing.TB, blockDirs ...string) *statehistory.Archive {
	t.Helper()
	return h.open(t, statehistory.Options{
		Dirs:      []string{h.folder("state-history"), h.folder("state-history", "retained")},
		BlockDirs: blockDirs,
		Range:     ship.Range{Begin: h.Seam, End: h.Snapshot + 1},
	})
}

// Version1 is the same history with archives that announce version 1 of the
// protocol, which they always answer. The nodes know version 0 alone.
func (h *History) Version1(t testing.TB) *History {
	t.Helper()
	type object = map[string]any
	var abi object
	if err := json.Unmarshal(h.ABI, &abi); err != nil {
		t.Fatal(err)
	}
	abi["structs"] = append(abi["structs"].([]any),
		object{"name": "get_blocks_request_v1", "base": "get_blocks_request_v0", "fields": []object{{"name": "fetch_finality_data", "type": "bool"}}},
		object{"name": "get_blocks_result_v1", "base": "get_blocks_result_v0", "fields": []object{{"name": "finality_data", "type": "bytes?"}}},
		object{"name": "get_status_request_v1", "base": "", "fields": []object{}},
		object{"name": "get_status_result_v1", "base": "get_status_result_v0", "fields": []object{
			{"name": "finality_data_begin_block", "type": "uint32"}, {"name": "finality_data_end_block", "type": "uint32"}}})
	for _, v := range abi["variants"].([]any) {
		switch v := v.(object); v["name"] {
		case "request":
			v["types"] = append(v["types"].([]any), "get_blocks_request_v1", "get_status_request_v1")
		case "result":
			v["types"] = append(v["types"].([]any), "get_blocks_result_v1", "get_status_result_v1")
		}
	}
	newer := *h
	var err error
	if newer.ABI, err = json.Marshal(abi); err != nil {
		t.Fatal(err)
	}
	return &newer
}

func (h *History) folder(names ...string) string {
	return filepath.Join(append([]string{h.Split.dir(), "data"}, names...)...)
}

func (h *History) open(t testing.TB, o statehistory.Options) *statehistory.Archive {
	t.Helper()
	o.ChainID, o.ABI = h.ChainID, h.ABI
	a, err := statehistory.Open(o)
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

// serve serves an archive on a port of its own until the test ends or the
// server is closed. Damage in the archive fails the test.
func serve(t testing.TB, a *statehistory.Archive) *statehistory.Server {
	t.Helper()
	return serveTo(t, a, writer(func(line string) { t.Errorf("an archive says: %s", line) }))
}

// serveDamaged serves an archive that is damaged at a block, and fails the test
// with any other damage.
func serveDamaged(t testing.TB, a *statehistory.Archive, block uint32) *statehistory.Server {
	t.Helper()
	known := fmt.Sprintf("the entry of block %d is damaged", block)
	return serveTo(t, a, writer(func(line string) {
		if !strings.Contains(line, known) {
			t.Errorf("the damaged archive says: %s", line)
		}
	}))
}

func serveTo(t testing.TB, a *statehistory.Archive, log io.Writer) *statehistory.Server {
	t.Helper()
	l, err := net.Listen("tcp", FreeAddr(t))
	if err != nil {
		t.Fatal(err)
	}
	s := statehistory.Serve(l, a, 0, slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(s.Close)
	return s
}

// writer takes the lines of a log.
type writer func(line string)

func (w writer) Write(line []byte) (int, error) {
	w(string(line))
	return len(line), nil
}
