// Command seams measures what a client sees of the handoffs of a range-split
// fleet: the time between the last block of one archive and the first of the
// next, over many seams, through any gateway that takes fleet-router files.
//
//	go run ./tests/bench/seams -trip 5ms flotilla=./flotilla fleet-router=/usr/local/bin/fleet-router
//
// The archives are simulated, in this process, and -trip away: their answers
// take that long at least. The gateways are measured one after another.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"
)

func main() {
	var b bench
	flag.IntVar(&b.seams, "seams", 1000, "how many handoffs to measure")
	flag.IntVar(&b.archives, "archives", 21, "how many archives the history is split over")
	flag.IntVar(&b.length, "length", 400, "blocks of each archive")
	flag.DurationVar(&b.trip, "trip", 5*time.Millisecond, "round trip between gateway and nodes")
	credit := flag.Uint("credit", 40, "results that the client takes before it acks")
	flag.Parse()
	b.credit = uint32(*credit)
	if err := b.run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "seams:", err)
		os.Exit(1)
	}
}

// bench is one run over the same fleet.
type bench struct {
	seams, archives, length int
	trip                    time.Duration
	credit                  uint32

	chain *simulator.Chain
	// servers are the entries of the gateway's configuration; begins are the
	// first blocks of the archives, and then that of the live node.
	servers []map[string]any
	begins  []uint32
}

func (b *bench) run(gateways []string) error {
	if len(gateways) == 0 {
		return errors.New("name the gateways to measure: NAME=PATH of a binary, each")
	}
	if b.archives < 2 || b.length < 10 {
		return errors.New("there have to be two archives at least, of ten blocks each")
	}
	end := uint32(2 + b.archives*b.length)
	b.chain = simulator.NewChain(simulator.ChainOptions{Seed: "seams", Head: end + 500, Sizes: simulator.Sizes{Block: 200, Traces: 3000, Deltas: 800}})
	for begin := uint32(2); begin < end; begin += uint32(b.length) {
		stop, err := b.node(simulator.Options{First: begin, End: begin + uint32(b.length)})
		if err != nil {
			return err
		}
		defer stop()
	}
	stop, err := b.node(simulator.Options{Snapshot: end - 1})
	if err != nil {
		return err
	}
	defer stop()
	fmt.Printf("%d seams, %d archives of %d blocks, round trip %v, credit %d\n", b.seams, b.archives, b.length, b.trip, b.credit)
	fmt.Printf("%-16s %9s %9s %9s %9s %9s %12s\n", "gateway", "p50 ms", "p90 ms", "p99 ms", "max ms", "under RTT", "blocks/s")
	for _, g := range gateways {
		name, path, ok := strings.Cut(g, "=")
		if !ok {
			return fmt.Errorf("%q is not NAME=PATH", g)
		}
		if err := b.measure(name, path); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// node starts a node that is a trip away.
func (b *bench) node(o simulator.Options) (stop func(), err error) {
	o.Listen = func(address string) (net.Listener, error) {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, err
		}
		return &farListener{Listener: l, trip: b.trip}, nil
	}
	n, err := simulator.Start(b.chain, o)
	if err != nil {
		return nil, err
	}
	s := map[string]any{"name": fmt.Sprintf("n%d", len(b.servers)), "endpoint": n.Addr(), "enabled": true}
	if o.End > 0 {
		s["role"], s["range"] = "frozen", map[string]any{"begin": o.First, "end": o.End}
		b.begins = append(b.begins, o.First)
	} else {
		b.begins = append(b.begins, o.Snapshot+1)
	}
	b.servers = append(b.servers, s)
	return n.Close, nil
}

// measure runs one gateway and reads the history until there are enough seams.
func (b *bench) measure(name, path string) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	stop, err := b.start(path, port)
	if err != nil {
		return err
	}
	defer stop()
	var gaps []time.Duration
	var blocks uint64
	var spent time.Duration
	for len(gaps) < b.seams {
		pass, err := b.pass(fmt.Sprintf("ws://127.0.0.1:%d/", port))
		if err != nil {
			return err
		}
		gaps = append(gaps, pass.gaps...)
		blocks += pass.blocks
		spent += pass.spent
	}
	gaps = gaps[:b.seams]
	slices.Sort(gaps)
	ms := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1000) }
	under, _ := slices.BinarySearch(gaps, b.trip)
	at := func(share float64) time.Duration { return gaps[min(int(share*float64(len(gaps))), len(gaps)-1)] }
	fmt.Printf("%-16s %9s %9s %9s %9s %8.1f%% %12.0f\n", name, ms(at(0.5)), ms(at(0.9)), ms(at(0.99)), ms(gaps[len(gaps)-1]),
		100*float64(under)/float64(len(gaps)), float64(blocks)/spent.Seconds())
	return nil
}

type pass struct {
	gaps   []time.Duration
	blocks uint64
	spent  time.Duration
}

// pass reads the history once, strictly.
func (b *bench) pass(url string) (p pass, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := dial(ctx, url)
	if err != nil {
		return p, err
	}
	defer c.Close()
	began := time.Now()
	last := b.begins[len(b.begins)-1] + 100
	err = c.Ask(ship.BlocksRequest{Start: b.begins[0], End: last + 1, MaxInFlight: b.credit, FetchBlock: true, FetchTraces: true, FetchDeltas: true})
	if err != nil {
		return p, err
	}
	if err := c.Wait(ctx, func(r simulator.Report) bool { return r.Last.Num >= last }); err != nil {
		return p, err
	}
	r := c.Report()
	if r.Gaps+r.Duplicates+r.BrokenLinks > 0 {
		return p, fmt.Errorf("the stream is wrong: %+v", r)
	}
	p.blocks, p.spent = r.Blocks, time.Since(began)
	for _, seam := range b.begins[1:] {
		gap, ok := c.Between(seam)
		if !ok {
			return p, fmt.Errorf("block %d or the one before did not come", seam)
		}
		p.gaps = append(p.gaps, gap)
	}
	return p, nil
}

// dial waits for a gateway that has just been started.
func dial(ctx context.Context, url string) (*simulator.Client, error) {
	for {
		c, err := simulator.Dial(ctx, url, simulator.ClientOptions{AckEvery: 1, KeepTimes: true})
		if err == nil || ctx.Err() != nil {
			return c, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// start runs a gateway until stop is called.
func (b *bench) start(path string, port int) (stop func(), err error) {
	dir, err := os.MkdirTemp("", "seams")
	if err != nil {
		return nil, err
	}
	doc, err := json.Marshal(map[string]any{
		"listen_address": "127.0.0.1", "listen_port": port, "chain_id": b.chain.ID().String(),
		"upstream_reconnect_ms": 1000, "upstream_monitoring_ms": 1000, "upstream_status_ms": 1000,
		"servers": b.servers,
	})
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "seams.json")
	if err := os.WriteFile(file, doc, 0o600); err != nil {
		return nil, err
	}
	cmd := exec.Command(path, "run", "--config", file)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}, nil
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
