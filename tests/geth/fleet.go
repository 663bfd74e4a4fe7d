//go:build geth

package geth

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// chainID is that of the fleet's chain.
const chainID = 1337

// period is the time between two blocks. geth's timestamps are whole seconds.
const period = time.Second

// Contract is an account of the first block whose code logs each call.
const Contract = "0x00000000000000000000000000000000000c0de0"

// Accounts are those that have money, by the name of the library that sends from
// it. The keys are of no use elsewhere.
var Accounts = map[string]Account{
	"ethers": {"0x0000000000000000000000000000000000000000000000000000000000000001", "7E5F4552091A69125d5DfCb7b8C2659029395Bdf"},
	"viem":   {"0x0000000000000000000000000000000000000000000000000000000000000002", "2B5AD5c4795c026514f8317c7a215E218DcCD6cF"},
}

// Account is a private key and its address.
type Account struct{ Key, Address string }

// Fleet is a chain of its own, and geth nodes that follow it. There is no
// network between them: the fleet plays the consensus client of all of them,
// lets them build a block in turn, and hands it to the others.
type Fleet struct {
	Nodes []*Node

	dir, program string
	secret       []byte

	mu sync.Mutex
	// blocks are those of the chain from block 1 on; head is the newest one.
	blocks []payload
	head   header
	turn   int
}

// NewFleet starts nodes that follow a new chain, and makes a block each period.
// All of it ends with the test; when that failed, the ends of the nodes' logs
// are shown.
func NewFleet(t testing.TB, count int) *Fleet {
	t.Helper()
	f := &Fleet{dir: t.TempDir(), program: program(t), secret: make([]byte, 32)}
	rand.Read(f.secret)
	f.write(t, "jwt", hex.EncodeToString(f.secret))
	f.write(t, "genesis.json", genesis())
	for i := range count {
		n := newNode(t, f, fmt.Sprintf("geth-%d", i+1))
		n.Start(t)
		f.Nodes = append(f.Nodes, n)
	}
	var err error
	if f.head, err = f.Nodes[0].newest(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.feed(ctx, t)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return f
}

// feed makes a block each period and hands it over.
func (f *Fleet) feed(ctx context.Context, t testing.TB) {
	tick := time.NewTicker(period)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := f.mine(ctx); err != nil && ctx.Err() == nil {
			t.Logf("no block this time: %v", err)
		}
		for _, n := range f.Nodes {
			if err := f.bring(ctx, n); err != nil && ctx.Err() == nil {
				t.Logf("%s gets its blocks later: %v", n.Name, err)
			}
		}
	}
}

// mine lets the next node that follows the chain build a block.
func (f *Fleet) mine(ctx context.Context) error {
	for range f.Nodes {
		f.turn++
		n := f.Nodes[f.turn%len(f.Nodes)]
		if n.away() {
			continue
		}
		if at, err := n.newest(ctx); err != nil || at.Hash != f.head.Hash {
			continue
		}
		block, err := n.build(ctx, f.head)
		if err != nil {
			return fmt.Errorf("%s builds: %w", n.Name, err)
		}
		f.mu.Lock()
		f.blocks = append(f.blocks, block)
		f.head = block.header()
		f.mu.Unlock()
		return nil
	}
	return fmt.Errorf("no node is at the head")
}

// bring hands a node all blocks that it does not have.
func (f *Fleet) bring(ctx context.Context, n *Node) error {
	if n.away() {
		return nil
	}
	at, err := n.newest(ctx)
	if err != nil {
		return err
	}
	for i := at.number(); i < uint64(len(f.blocks)); i++ {
		if err := n.take(ctx, f.blocks[i]); err != nil {
			return err
		}
	}
	return nil
}

// Hash is the hash of a block of the chain, empty when there is none.
func (f *Fleet) Hash(number uint64) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if number == 0 || number > uint64(len(f.blocks)) {
		return ""
	}
	return f.blocks[number-1].header().Hash
}

// Head is the number of the newest block.
func (f *Fleet) Head() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return uint64(len(f.blocks))
}

func (f *Fleet) write(t testing.TB, name, text string) {
	t.Helper()
	if err := os.WriteFile(f.path(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f *Fleet) path(name string) string { return filepath.Join(f.dir, name) }

// genesis has all forks up to Cancun in force from the first block on.
func genesis() string {
	money := ""
	for _, a := range Accounts {
		money += fmt.Sprintf(`"%s":{"balance":"0xd3c21bcecceda1000000"},`, a.Address)
	}
	// PUSH1 0, PUSH1 0, LOG0, STOP.
	const code = "0x60006000a000"
	return fmt.Sprintf(`{"config":{"chainId":%d,"homesteadBlock":0,"eip150Block":0,"eip155Block":0,"eip158Block":0,
"byzantiumBlock":0,"constantinopleBlock":0,"petersburgBlock":0,"istanbulBlock":0,"berlinBlock":0,"londonBlock":0,
"mergeNetsplitBlock":0,"shanghaiTime":0,"cancunTime":0,"terminalTotalDifficulty":0,
"blobSchedule":{"cancun":{"target":3,"max":6,"baseFeeUpdateFraction":3338477}}},
"difficulty":"0x0","gasLimit":"0x1c9c380","timestamp":"0x0","baseFeePerGas":"0x3b9aca00","extraData":"0x",
"alloc":{%s"%s":{"balance":"0x0","code":"%s"}}}`, chainID, money, Contract[2:], code)
}

// program is the installed node program.
func program(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("FLOTILLA_GETH")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(cache, "flotilla-geth")
	}
	found, err := filepath.Glob(filepath.Join(dir, "geth-v*"))
	if err != nil || len(found) == 0 {
		t.Fatalf("geth is not installed in %s; run this in the repository, then the test again:\n\tbash tests/geth/install.sh", dir)
	}
	return found[len(found)-1]
}
