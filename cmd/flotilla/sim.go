package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"
)

type simOptions struct {
	nodes     int
	archives  int
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
			"a configuration for them. They behave as Spring nodes do; the chain is made up.\n\n" +
			"With --archives the irreversible history is on archives, two of each range, and\n" +
			"the live nodes have what follows.",
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
	f.IntVar(&o.nodes, "nodes", 3, "number of live nodes")
	f.IntVar(&o.archives, "archives", 0, "number of archived ranges, with two archives each")
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
	case o.archives < 0 || o.archives > maxNodes:
		return fmt.Errorf("--archives is %d; 0 to %d are possible", o.archives, maxNodes)
	case o.basePort < 0 || o.basePort+o.ports() > 1<<16:
		return fmt.Errorf("--base-port is %d; there is no room for %d ports from it on", o.basePort, o.ports())
	case o.interval <= 0:
		return errors.New("--interval has to be more than 0")
	case o.libLag < 1:
		return errors.New("--lib-lag has to be at least 1")
	case o.history < 1:
		return errors.New("--history has to be at least 1")
	case o.archives > 0 && o.archived().End < o.archived().Begin+uint32(o.archives):
		return fmt.Errorf("--history is %d; with --lib-lag %d, that leaves no blocks for %d archived ranges", o.history, o.libLag, o.archives)
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

func (o *simOptions) ports() int { return o.nodes + replicas*o.archives }

// archived are the blocks for archives: all that is irreversible at the start.
func (o *simOptions) archived() ship.Range {
	return ship.Range{Begin: 2, End: max(o.history, o.libLag) - o.libLag + 1}
}

func runSim(ctx context.Context, o simOptions, out io.Writer) error {
	chain := simulator.NewChain(simulator.ChainOptions{
		Seed: "sim", Head: o.history, LIBLag: o.libLag, Sizes: splitPayload(o.payload),
	})
	fleet, err := startFleet(chain, o.nodes, splitBlocks(o.archived(), o.archives), func(i int) string {
		port := 0
		if o.basePort > 0 {
			port = o.basePort + i
		}
		return fmt.Sprintf("127.0.0.1:%d", port)
	})
	if err != nil {
		return err
	}
	defer fleet.close()

	for _, n := range fleet.nodes {
		fmt.Fprintf(out, "%s: %s\n", n.name, n.URL())
	}
	fmt.Fprintf(out, "\n%s\n", fleet.text())

	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var work sync.WaitGroup
	var failed error
	work.Go(func() { chain.Produce(ctx, o.interval) })
	work.Go(func() { fleet.forkEvery(ctx, o.forkEvery) })
	if o.killEvery > 0 {
		work.Go(func() {
			next := func(turn int) *simNode {
				if !pause(ctx, o.killEvery-o.killEvery/2) {
					return nil
				}
				return fleet.nodes[turn%len(fleet.nodes)]
			}
			failed = fleet.kill(ctx, o.killEvery/2, next, func(n *simNode, killed bool) {
				fmt.Fprintf(out, "%s %s\n", time.Now().Format(time.TimeOnly), tale(n, killed))
			})
			if failed != nil {
				cancel()
			}
		})
	}
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
