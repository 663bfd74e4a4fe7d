// Command idlesockets measures what WebSocket clients that do nothing cost a
// gateway for EVM JSON-RPC: first clients that are only connected, then clients
// that each subscribe to newHeads. Linux only.
//
//	go build -o flotilla ./cmd/flotilla
//	go run ./tests/bench/idlesockets -flotilla ./flotilla
//
// The nodes are simulated, in a process of their own, as are the clients, so
// that each has its own limit of open files. A client that subscribes takes two
// of the gateway's: one to the client, one to a node.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

func main() {
	var b bench
	flag.StringVar(&b.flotilla, "flotilla", "./flotilla", "the program to measure")
	flag.IntVar(&b.clients, "clients", 10000, "how many clients there are")
	flag.DurationVar(&b.period, "period", 12*time.Second, "time between two blocks")
	flag.DurationVar(&b.idle, "idle", 30*time.Second, "how long the clients are idle before memory is read")
	flag.Float64Var(&b.limit, "limit", 0, "fail when the gateway has ever had more MiB; 0 is no limit")
	nodes := flag.Bool("nodes", false, "be the nodes; the program calls itself with this")
	flag.Parse()
	run := b.run
	if *nodes {
		run = b.serveNodes
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "idlesockets:", err)
		os.Exit(1)
	}
}

// bench is one run.
type bench struct {
	flotilla     string
	clients      int
	period, idle time.Duration
	limit        float64
}

func (b *bench) run() error {
	nodes, stop, err := b.startNodes()
	if err != nil {
		return err
	}
	defer stop()
	fmt.Println("| clients | count | MiB before | MiB | peak MiB | KiB each | connected in s | CPU when idle, % of a core |")
	fmt.Println("|---|---:|---:|---:|---:|---:|---:|---:|")
	for _, c := range []struct {
		name      string
		files     int
		subscribe bool
	}{{"connected", 1, false}, {"subscribed to newHeads", 2, true}} {
		count, err := within(b.clients, c.files)
		if err != nil {
			return err
		}
		row, err := b.measure(nodes, count, c.subscribe)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Printf("| %s | %d | %s |\n", c.name, count, row)
	}
	return nil
}

// reserve is how many files the gateway needs for everything else.
const reserve = 200

// within is how many of the wanted clients the limit of open files allows, when
// each takes so many of the gateway's files.
func within(clients, files int) (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, err
	}
	most := (int(limit.Max) - reserve) / files
	if most <= 0 {
		return 0, fmt.Errorf("the limit of %d open files is too low; raise it with ulimit -n", limit.Max)
	}
	if most < clients {
		fmt.Fprintf(os.Stderr, "idlesockets: %d clients in the place of %d, as the limit of open files is %d\n", most, clients, limit.Max)
	}
	return min(clients, most), nil
}

// measure runs the gateway with that many clients, and returns the cells of its
// row.
func (b *bench) measure(nodes []string, count int, subscribe bool) (string, error) {
	address, pid, stop, err := b.startGateway(nodes, count)
	if err != nil {
		return "", err
	}
	defer stop()
	before, err := memory(pid, "VmRSS")
	if err != nil {
		return "", err
	}
	began := time.Now()
	all, err := connect(address, count, subscribe)
	defer all.close()
	if err != nil {
		return "", err
	}
	connected := time.Since(began)
	used, err := cpu(pid)
	if err != nil {
		return "", err
	}
	began = time.Now()
	time.Sleep(b.idle)
	idle, err := cpu(pid)
	if err != nil {
		return "", err
	}
	share := 100 * (idle - used).Seconds() / time.Since(began).Seconds()
	now, err := memory(pid, "VmRSS")
	if err != nil {
		return "", err
	}
	peak, err := memory(pid, "VmHWM")
	if err != nil {
		return "", err
	}
	if err := all.check(subscribe); err != nil {
		return "", err
	}
	if most := float64(peak) / (1 << 20); b.limit > 0 && most > b.limit {
		return "", fmt.Errorf("it took %.0f MiB, which is above the limit of %.0f", most, b.limit)
	}
	mib := func(bytes int64) string { return fmt.Sprintf("%.0f", float64(bytes)/(1<<20)) }
	return fmt.Sprintf("%s | %s | %s | %.1f | %.1f | %.1f", mib(before), mib(now), mib(peak),
		float64(now-before)/1024/float64(count), connected.Seconds(), share), nil
}

// startGateway runs the program to measure in front of the nodes until stop is
// called.
func (b *bench) startGateway(nodes []string, clients int) (address string, pid int, stop func(), err error) {
	address, err = freeAddress()
	if err != nil {
		return "", 0, nil, err
	}
	dir, err := os.MkdirTemp("", "idlesockets")
	if err != nil {
		return "", 0, nil, err
	}
	var text strings.Builder
	fmt.Fprintf(&text, "listener \"evm\" \"idle\" {\n  address  = %q\n  chain_id = %d\n  limits { max_connections = %d }\n  health { readmit = \"0s\" }\n", address, chainID, clients+100)
	for i, node := range nodes {
		fmt.Fprintf(&text, "  server \"node-%d\" { endpoint = \"http://%s\" }\n", i, node)
	}
	text.WriteString("}\n")
	file := filepath.Join(dir, "idle.hcl")
	cmd := exec.Command(b.flotilla, "run", "--config", file)
	if err = os.WriteFile(file, []byte(text.String()), 0o600); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return "", 0, nil, err
	}
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	for range 100 {
		if healthy(address) {
			return address, cmd.Process.Pid, stop, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	stop()
	return "", 0, nil, errors.New("the gateway does not serve")
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
