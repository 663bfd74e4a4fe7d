package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"flotilla/gateway/simulator"
)

const (
	nodeCount = 3
	chainID   = 1337
)

// startNodes runs this program once more, as the nodes, until stop is called.
func (b *bench) startNodes() (addresses []string, stop func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.Command(self, "-nodes", "-period", b.period.String())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	stop = func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return nil, nil, fmt.Errorf("the nodes do not start: %w", err)
	}
	return strings.Fields(line), stop, nil
}

// serveNodes is what that one does: it prints the addresses of the nodes, and
// gives them a block now and then.
func (b *bench) serveNodes() error {
	chain := simulator.NewEVMChain(chainID, 100)
	var nodes []*simulator.EVMNode
	var addresses []string
	for i := range nodeCount {
		n := simulator.NewEVMNode(fmt.Sprintf("node-%d", i), chain)
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		nodes, addresses = append(nodes, n), append(addresses, l.Addr().String())
		go func() { fmt.Fprintln(os.Stderr, http.Serve(l, n)) }()
	}
	fmt.Println(strings.Join(addresses, " "))
	for range time.Tick(b.period) {
		head := chain.Mine(1)
		for _, n := range nodes {
			n.Import(head)
		}
	}
	return nil
}
