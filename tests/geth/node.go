//go:build geth

package geth

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// startTimeout is how long a process may take to serve; an idle machine takes
// two seconds.
const startTimeout = 60 * time.Second

// Node is one geth process, or the place of one that was killed. Its methods are
// for the test's goroutine.
type Node struct {
	Name string
	// Addr is host:port of HTTP and WebSocket.
	Addr string

	engineAddr string
	fleet      *Fleet
	process    *exec.Cmd
	exited     chan struct{}
	// dead and held are true while the node gets no blocks and builds none.
	dead, held atomic.Bool
}

func newNode(t testing.TB, f *Fleet, name string) *Node {
	t.Helper()
	n := &Node{Name: name, fleet: f, Addr: freeAddr(t), engineAddr: freeAddr(t)}
	n.dead.Store(true)
	out, err := exec.Command(f.program, "--datadir", n.dir(), "--state.scheme", "hash", "--verbosity", "1", "init", f.path("genesis.json")).CombinedOutput()
	if err != nil {
		t.Fatalf("%s cannot begin its chain: %v\n%s", name, err, out)
	}
	t.Cleanup(func() {
		if !n.dead.Load() {
			n.Kill(t)
		}
		if t.Failed() {
			t.Logf("the end of the log of %s:\n%s", n.Name, tail(n.dir()+".log"))
		}
	})
	return n
}

func (n *Node) dir() string { return n.fleet.path(n.Name) }

// Start starts the node and returns when it serves. It keeps the state of each
// block on disk, so that one that was killed goes on where it was.
func (n *Node) Start(t testing.TB) {
	t.Helper()
	log, err := os.OpenFile(n.dir()+".log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	host, port, _ := net.SplitHostPort(n.Addr)
	_, enginePort, _ := net.SplitHostPort(n.engineAddr)
	cmd := exec.Command(n.fleet.program, "--datadir", n.dir(), "--networkid", fmt.Sprint(chainID), "--syncmode", "full", "--gcmode", "archive", "--state.scheme", "hash",
		"--nodiscover", "--maxpeers", "0", "--port", "0", "--ipcdisable", "--nat", "none", "--cache", "64", "--verbosity", "3",
		"--http", "--http.addr", host, "--http.port", port, "--http.api", "eth,net,web3,txpool",
		"--ws", "--ws.addr", host, "--ws.port", port, "--ws.api", "eth,net,web3",
		"--authrpc.addr", host, "--authrpc.port", enginePort, "--authrpc.jwtsecret", n.fleet.path("jwt"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start %s: %v", n.Name, err)
	}
	exited := make(chan struct{})
	go func() {
		defer close(exited)
		_ = cmd.Wait() // How a node ended is in its log.
	}()
	n.process, n.exited = cmd, exited
	Eventually(t, startTimeout, n.Name+" does not serve", func() bool {
		select {
		case <-exited:
			t.Fatalf("%s has ended at its start:\n%s", n.Name, tail(log.Name()))
		default:
		}
		_, err := n.newest(t.Context())
		return err == nil
	})
	n.dead.Store(false)
}

// Kill ends the node with SIGKILL.
func (n *Node) Kill(t testing.TB) {
	t.Helper()
	n.dead.Store(true)
	if err := n.process.Process.Kill(); err != nil {
		t.Errorf("kill %s: %v", n.Name, err)
	}
	<-n.exited
}

// Hold keeps blocks from the node until Release, so that it lags.
func (n *Node) Hold() { n.held.Store(true) }

// Release lets the node have all that it has missed.
func (n *Node) Release() { n.held.Store(false) }

func (n *Node) away() bool { return n.dead.Load() || n.held.Load() }

// freeAddr is a loopback host:port that nothing listens on. It is outside the
// range from which the system takes ports for outgoing connections, so it is
// still free when a node that was killed comes back to it.
func freeAddr(t testing.TB) string {
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
	for deadline := time.Now().Add(limit); !ok(); <-poll.C {
		if time.Now().After(deadline) {
			t.Fatalf("%s within %v", failure, limit)
		}
	}
}

// tail is the last part of a file, for the reader of a failed test.
func tail(path string) string {
	const most = 3000
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-most):])
}
