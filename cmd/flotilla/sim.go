package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"
)

type simOptions struct {
	nodes     int
	basePort  int
	payload   int
	interval  time.Duration
	libLag    uint32
	forkEvery time.Duration
	killEvery time.Duration
	history   uint32
}

func newSimCommand() *cobra.Command {
	var o simOptions
	cmd := &cobra.Command{
		Use:   "sim",
		Short: "Run simulated SHiP nodes of one made-up chain",
		Long: "Runs simulated SHiP nodes on loopback ports until it is interrupted, and prints\n" +
			"a configuration for them. They behave as Spring nodes do; the chain is made up.",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.check(); err != nil {
				return usageError{err}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return runSim(ctx, o, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.IntVar(&o.nodes, "nodes", 3, "number of nodes")
	f.IntVar(&o.basePort, "base-port", 18080, "port of the first node, the others follow; 0 picks free ones")
	f.IntVar(&o.payload, "payload", 1000, "bytes of block, traces and deltas together")
	f.DurationVar(&o.interval, "interval", 500*time.Millisecond, "time between two blocks")
	f.Uint32Var(&o.libLag, "lib-lag", simulator.DefaultLIBLag, "blocks that LIB is behind the head")
	f.DurationVar(&o.forkEvery, "fork-every", 0, "time between two forks, 0 for none")
	f.DurationVar(&o.killEvery, "kill-every", 0, "time between two kills of a node, 0 for none")
	f.Uint32Var(&o.history, "history", 1000, "blocks that are there at the start")
	return cmd
}

func (o *simOptions) check() error {
	switch {
	case o.nodes < 1 || o.nodes > maxNodes:
		return fmt.Errorf("--nodes is %d; 1 to %d are possible", o.nodes, maxNodes)
	case o.basePort < 0 || o.basePort+o.nodes > 1<<16:
		return fmt.Errorf("--base-port is %d; there is no room for %d ports from it on", o.basePort, o.nodes)
	case o.interval <= 0:
		return errors.New("--interval has to be more than 0")
	case o.libLag < 1:
		return errors.New("--lib-lag has to be at least 1")
	case o.history < 1:
		return errors.New("--history has to be at least 1")
	}
	return checkShared(o.payload, o.forkEvery, o.killEvery)
}

// The limits of both commands with simulated nodes.
const (
	maxNodes   = 100
	maxPayload = 64 << 20
)

func checkShared(payload int, times ...time.Duration) error {
	if payload < 0 || payload > maxPayload {
		return fmt.Errorf("--payload is %d; 0 to %d bytes are possible", payload, maxPayload)
	}
	for _, t := range times {
		if t < 0 {
			return fmt.Errorf("a time between two events is %v; 0 means never, less does not exist", t)
		}
	}
	return nil
}

func runSim(ctx context.Context, o simOptions, out io.Writer) error {
	chain := simulator.NewChain(simulator.ChainOptions{
		Seed: "sim", Head: o.history, LIBLag: o.libLag, Sizes: splitPayload(o.payload),
	})
	addresses := make([]string, o.nodes)
	for i := range addresses {
		port := 0
		if o.basePort > 0 {
			port = o.basePort + i
		}
		addresses[i] = fmt.Sprintf("127.0.0.1:%d", port)
	}
	nodes, err := startNodes(chain, addresses)
	if err != nil {
		return err
	}
	defer closeNodes(nodes)

	for i, n := range nodes {
		fmt.Fprintf(out, "node %d: %s\n", i+1, n.URL())
	}
	fmt.Fprintf(out, "\n%s\n", fleetText(chain.ID(), nodes))

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var work sync.WaitGroup
	var failed error
	work.Go(func() { chain.Produce(ctx, o.interval) })
	work.Go(func() { forkEvery(ctx, chain, o.forkEvery) })
	work.Go(func() {
		pick := func(turn int) int { return turn % len(nodes) }
		failed = killEvery(ctx, nodes, o.killEvery, pick, func(what string) {
			fmt.Fprintf(out, "%s %s\n", time.Now().Format(time.TimeOnly), what)
		})
		if failed != nil {
			cancel()
		}
	})
	work.Wait()
	return failed
}

// splitPayload spreads total bytes over the fields of a block result, about as
// a busy chain does.
func splitPayload(total int) simulator.Sizes {
	s := simulator.Sizes{Block: total / 4, Traces: total / 2}
	s.Deltas = total - s.Block - s.Traces
	return s
}

// startNodes starts one node on each address, or none.
func startNodes(chain *simulator.Chain, addresses []string) ([]*simulator.Node, error) {
	var nodes []*simulator.Node
	for _, a := range addresses {
		n, err := simulator.Start(chain, simulator.Options{Address: a})
		if err != nil {
			closeNodes(nodes)
			return nil, err
		}
		nodes = append(nodes, n)
	}
	return nodes, nil
}

func closeNodes(nodes []*simulator.Node) {
	for _, n := range nodes {
		n.Close()
	}
}

// fleetText is a configuration for simulated nodes.
func fleetText(chainID ship.ID, nodes []*simulator.Node) string {
	var b strings.Builder
	fmt.Fprintf(&b, `admin { address = "127.0.0.1:9090" }

listener "ship" "sim" {
  address            = "127.0.0.1:17000"
  chain_id           = "%s"
  upstream_reconnect = "200ms"
  upstream_status    = "1s"
`, chainID)
	for i, n := range nodes {
		fmt.Fprintf(&b, "\n  server \"sim-%d\" {\n    endpoint = \"%s\"\n  }\n", i+1, n.Addr())
	}
	b.WriteString("}\n")
	return b.String()
}

// forkDepth is how many blocks a fork replaces.
const forkDepth = 3

// forkEvery makes a fork each time until ctx ends; 0 is never.
func forkEvery(ctx context.Context, chain *simulator.Chain, every time.Duration) {
	for every > 0 && pause(ctx, every) {
		lag := chain.Head().Num - chain.LIB().Num
		// An error means that the chain is too short for it, which passes.
		_, _ = chain.Reorg(min(forkDepth, lag))
	}
}

// killEvery kills a node each time until ctx ends, 0 is never, and restarts it
// half the time later, or when ctx ends. pick chooses the node of each turn.
func killEvery(ctx context.Context, nodes []*simulator.Node, every time.Duration, pick func(turn int) int, tell func(what string)) error {
	for turn := 0; every > 0 && pause(ctx, every-every/2); turn++ {
		i := pick(turn)
		nodes[i].Kill()
		tell(fmt.Sprintf("node %d is killed", i+1))
		pause(ctx, every/2)
		if err := nodes[i].Restart(); err != nil {
			return err
		}
		tell(fmt.Sprintf("node %d is back", i+1))
	}
	return nil
}

// pause waits; it returns false as soon as ctx ends.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
