//go:build nodeos

package nodeos

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// startTimeout is how long a node may take to serve or to catch up. It takes
// under two seconds on an idle machine.
const startTimeout = 60 * time.Second

// Node is one nodeos process, or the place of one that is not running.
// Its methods are for the test's goroutine, Info aside.
type Node struct {
	Name string
	// SHiP and HTTP are host:port of the state history and chain API ports.
	SHiP, HTTP string
	// Args are arguments beyond those that all nodes have.
	Args []string
	// Snapshot is the file that a node without blocks begins with, where others
	// begin with the genesis.
	Snapshot string

	p2p     string
	clock   *clock // nil for the clock of this machine
	fleet   *Fleet
	peers   []*Node
	process *exec.Cmd
	exited  chan struct{}
	dirty   bool
}

// Info is the part of get_info that the tests use.
type Info struct {
	ChainID string `json:"chain_id"`
	Head    uint32 `json:"head_block_num"`
	HeadID  string `json:"head_block_id"`
	LIB     uint32 `json:"last_irreversible_block_num"`
}

// Start starts the node and returns when both of its ports serve. A node that
// was killed before is started from its block log, as an operator would do it.
func (n *Node) Start(t testing.TB) {
	t.Helper()
	n.Launch(t)
	n.waitUntil(t, "serve", func() bool { return n.serves() })
}

// Launch starts the node and does not wait for it to serve.
func (n *Node) Launch(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(n.logPath(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	args, err := n.args()
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(log, strings.Join(args, " "))
	cmd := exec.Command(n.fleet.program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), n.fleet.environment()...)
	if n.clock != nil {
		cmd.Env = append(cmd.Env, n.clock.env()...)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", n.Name, err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // how a node ended is in its log; that it ended is what counts
	}()
	n.process, n.exited, n.dirty = cmd, exited, false
}

// Kill ends the node with SIGKILL. Its state database is dirty afterwards.
func (n *Node) Kill(t testing.TB) {
	t.Helper()
	n.Signal(t, syscall.SIGKILL)
	<-n.exited
	n.dirty = true
}

// Stop ends the node as an operator does. Its folders are in good order
// afterwards.
func (n *Node) Stop(t testing.TB) {
	t.Helper()
	n.Signal(t, syscall.SIGTERM)
	select {
	case <-n.exited:
	case <-time.After(startTimeout):
		t.Fatalf("%s did not end within %v of SIGTERM", n.Name, startTimeout)
	}
}

// Signal sends a signal, SIGSTOP and SIGCONT for instance.
func (n *Node) Signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if !n.running() {
		t.Fatalf("%s is not running", n.Name)
	}
	if err := n.process.Process.Signal(s); err != nil {
		t.Fatalf("signal %s: %v", n.Name, err)
	}
}

// Info asks the node's chain API.
func (n *Node) Info() (Info, error) {
	var info Info
	err := n.call("/v1/chain/get_info", nil, &info)
	return info, err
}

// WaitBlock returns when the node's head is at num or above.
func (n *Node) WaitBlock(t testing.TB, num uint32) {
	t.Helper()
	n.waitUntil(t, fmt.Sprintf("reach block %d", num), func() bool {
		info, err := n.Info()
		return err == nil && info.Head >= num
	})
}

// CreateSnapshot writes a snapshot of the node's head block, once that is
// irreversible, and returns its path and the block's number. The node needs
// producerAPI.
func (n *Node) CreateSnapshot(t testing.TB) (path string, num uint32) {
	t.Helper()
	var made struct {
		Name string `json:"snapshot_name"`
		Num  uint32 `json:"head_block_num"`
	}
	if err := n.call("/v1/producer/create_snapshot", struct{}{}, &made); err != nil {
		t.Fatal(err)
	}
	return made.Name, made.Num
}

// producerAPI are the arguments of a node that can CreateSnapshot.
var producerAPI = []string{"--plugin", "eosio::producer_api_plugin"}

// call posts body as JSON to the node and decodes the answer into out. The
// node's own words come back in the error when it refuses.
func (n *Node) call(path string, body, out any) error {
	var b []byte
	if body != nil {
		var err error
		if b, err = json.Marshal(body); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.HTTP+path, bytes.NewReader(b))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s%s: %s: %s", n.Name, path, resp.Status, answer)
	}
	return json.Unmarshal(answer, out)
}

func (n *Node) serves() bool {
	info, err := n.Info()
	return err == nil && info.Head > 0 && accepts(n.SHiP)
}

func (n *Node) running() bool {
	if n.process == nil {
		return false
	}
	select {
	case <-n.exited:
		return false
	default:
		return true
	}
}

// stop ends the node in good order when it can, and by force when it hangs.
func (n *Node) stop() {
	if !n.running() {
		return
	}
	_ = n.process.Process.Signal(syscall.SIGCONT)
	_ = n.process.Process.Signal(syscall.SIGTERM)
	select {
	case <-n.exited:
	case <-time.After(10 * time.Second):
		_ = n.process.Process.Kill()
		<-n.exited
	}
}

func (n *Node) waitUntil(t testing.TB, what string, ok func() bool) {
	t.Helper()
	Eventually(t, startTimeout, n.Name+" did not "+what, func() bool {
		if !n.running() {
			t.Fatalf("%s ended before it could %s", n.Name, what)
		}
		return ok()
	})
}

func (n *Node) dir() string     { return filepath.Join(n.fleet.dir, n.Name) }
func (n *Node) logPath() string { return filepath.Join(n.dir(), "nodeos.log") }

// args is the command line, and makes the folders it names.
func (n *Node) args() ([]string, error) {
	data, conf := filepath.Join(n.dir(), "data"), filepath.Join(n.dir(), "config")
	if err := os.MkdirAll(conf, 0o755); err != nil {
		return nil, err
	}
	args := []string{"nodeos", "--data-dir", data, "--config-dir", conf}
	// chain_plugin comes first: this build sets plugins up in this order, and its
	// producer plugin crashes without a chain.
	for _, p := range []string{"chain", "http", "net", "producer", "chain_api", "state_history"} {
		args = append(args, "--plugin", "eosio::"+p+"_plugin")
	}
	args = append(args,
		"--http-server-address", n.HTTP,
		"--p2p-listen-endpoint", n.p2p,
		"--state-history-endpoint", n.SHiP,
		"--agent-name", n.Name,
		"--trace-history", "--chain-state-history",
		"--disable-replay-opts", // state history refuses to run with them
		"--p2p-max-nodes-per-host", "64",
		"--connection-cleanup-period", "2",
		"--chain-state-db-size-mb", "256",
		"--chain-state-db-guard-size-mb", "16",
		"--eos-vm-oc-enable", "none",
		"--resource-monitor-not-shutdown-on-threshold-exceeded",
		"--verbose-http-errors",
	)
	if n == n.fleet.Producer {
		args = append(args, "-p", "eosio", "--enable-stale-production", "--max-transaction-time", "500")
	}
	for _, p := range n.peers {
		args = append(args, "--p2p-peer-address", p.p2p)
	}
	args = append(args, n.Args...)
	_, err := os.Stat(filepath.Join(data, "blocks"))
	switch {
	case os.IsNotExist(err) && n.Snapshot != "":
		args = append(args, "--snapshot", n.Snapshot)
	case os.IsNotExist(err):
		args = append(args, "--genesis-json", n.fleet.genesis)
	case err != nil:
		return nil, err
	case n.dirty:
		// The state is rebuilt from the block log, and with it the state history,
		// which a replay refuses to go on with.
		if err := os.RemoveAll(filepath.Join(data, "state")); err != nil {
			return nil, err
		}
		args = append(args, "--replay-blockchain", "--delete-state-history")
	}
	return args, nil
}
