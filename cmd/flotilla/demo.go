package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"
)

type demoOptions struct {
	nodes           int
	stitched        bool
	duration        time.Duration
	killEvery       time.Duration
	blocksPerSecond int
	payload         int
}

func newDemoCommand() *cobra.Command {
	var o demoOptions
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch the gateway lose nodes and its client lose nothing",
		Long: "Runs simulated SHiP nodes, the gateway in front of them and a client that reads\n" +
			"through it, all in this process. Nodes are killed and restarted all the time.\n" +
			"The client checks every block; the command fails if one is lost, repeated or\n" +
			"changed, or if the client is closed.\n\n" +
			"With --stitched the history is on archives: two ranges with two replicas each,\n" +
			"from block 2 on. The client reads from there to the tip of the chain, and each\n" +
			"kind of node is killed under it at least once.",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.stitched && !cmd.Flags().Changed("nodes") {
				o.nodes = 2
			}
			if err := o.check(); err != nil {
				return usageError{err}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			// A second signal ends the process at once.
			context.AfterFunc(ctx, stop)
			return runDemo(ctx, o, runGateway, cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.BoolVar(&o.stitched, "stitched", false, "put the history on archives")
	f.IntVar(&o.nodes, "nodes", 3, "number of live nodes; 2 with --stitched")
	f.DurationVar(&o.duration, "duration", 20*time.Second, "how long it runs")
	f.DurationVar(&o.killEvery, "kill-every", 3*time.Second, "time between two kills of the node in use, 0 for none")
	f.IntVar(&o.blocksPerSecond, "blocks-per-second", 1000, "blocks that the chain makes each second")
	f.IntVar(&o.payload, "payload", 400, "bytes of block, traces and deltas together")
	return cmd
}

func (o *demoOptions) check() error {
	switch {
	case o.nodes < 1 || o.nodes > maxNodes:
		return fmt.Errorf("--nodes is %d; 1 to %d are possible", o.nodes, maxNodes)
	case o.duration <= 0:
		return errors.New("--duration has to be more than 0")
	case o.blocksPerSecond < 1 || o.blocksPerSecond > 1e6:
		return fmt.Errorf("--blocks-per-second is %d; 1 to 1000000 are possible", o.blocksPerSecond)
	}
	return checkShared(o.payload, o.killEvery)
}

const (
	// The client has demoHistory blocks to catch up with at first, or as many as
	// make demoHistoryBytes.
	demoHistory      = 20000
	demoHistoryBytes = 64 << 20
	demoLIBLag       = 330
	// demoForks is the time between two forks.
	demoForks = 1700 * time.Millisecond
	// demoCredit and demoAcks are the client's credit and how it renews it.
	demoCredit = 2000
	demoAcks   = 200
	// demoArchives is the number of archived ranges. Archives send a block each
	// demoPace, so that there is time to kill them; reading one range takes a
	// fifth of the duration.
	demoArchives = 2
	demoPace     = time.Millisecond
	// demoStart is the client's first block. Nobody has traces of block 1.
	demoStart = 2
	// demoIntoLeg is how many blocks into a leg its node is killed.
	demoIntoLeg = 300
	// demoPatience limits the start, and the time without a block at the end.
	demoPatience = 15 * time.Second
)

// history is how many blocks the client has to catch up with.
func (o *demoOptions) history() uint32 {
	most := min(demoHistory, demoHistoryBytes/(o.payload+1))
	if o.stitched {
		most = min(most, int(demoArchives*(o.duration/5)/demoPace))
	}
	return uint32(max(most, demoArchives))
}

// startFleet starts the nodes of the demo. All that the archives have is
// irreversible, and the live nodes go on right behind it.
func (o *demoOptions) startFleet() (*simFleet, error) {
	archived := ship.Range{Begin: demoStart, End: demoStart + o.history()}
	chain := simulator.NewChain(simulator.ChainOptions{
		Seed: "demo", Head: archived.End - 1 + demoLIBLag, LIBLag: demoLIBLag, Sizes: splitPayload(o.payload),
	})
	var ranges []ship.Range
	if o.stitched {
		ranges = splitBlocks(archived, demoArchives)
	}
	fleet, err := startFleet(chain, o.nodes, ranges, func(int) string { return "" })
	if err != nil {
		return nil, err
	}
	for _, n := range fleet.nodes {
		if !n.blocks.Empty() {
			n.Inject(simulator.Fault{Kind: simulator.Slow, For: demoPace})
		}
	}
	return fleet, nil
}

// runDemo runs the demo for its duration, or until ctx ends, and reports on
// out. The error says what the client has lost.
func runDemo(ctx context.Context, o demoOptions, run gatewayFunc, out io.Writer) (err error) {
	fleet, err := o.startFleet()
	if err != nil {
		return err
	}
	defer fleet.close()

	gw, err := startGateway(ctx, fleet, run)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gw.stop()) }()

	client, err := gw.dial(ctx, simulator.ClientOptions{AckEvery: demoAcks, CheckPayload: true, KeepTimes: true, First: demoStart})
	if err != nil {
		return err
	}
	defer client.Close()
	fmt.Fprintf(out, "%d simulated nodes, the gateway on %s, one client; for %v.\n", len(fleet.nodes), gw.ship, o.duration)
	for _, n := range fleet.nodes {
		if o.stitched && !n.blocks.Empty() {
			fmt.Fprintf(out, "%s has the blocks %d to %d.\n", n.name, n.blocks.Begin, n.blocks.End-1)
		}
	}

	d := &demo{opt: o, fleet: fleet, client: client, out: out, toured: make(chan struct{})}
	verdict := d.run(ctx)
	failovers, err := gw.count("fleet_router_failovers_total")
	if err != nil {
		return errors.Join(verdict, err)
	}
	handoffs, err := gw.count("fleet_router_handoffs_total")
	if err != nil {
		return errors.Join(verdict, err)
	}
	d.summarize(failovers, handoffs)
	return verdict
}

// demo is a demo in progress.
type demo struct {
	opt    demoOptions
	fleet  *simFleet
	client *simulator.Client
	out    io.Writer
	// toured is closed when a node of each leg has been killed.
	toured chan struct{}

	kills atomic.Int64
	event atomic.Pointer[string]
}

// run streams until the time is over and everything has arrived.
func (d *demo) run(ctx context.Context) error {
	streaming, cancel := context.WithCancel(ctx)
	defer cancel()
	var work sync.WaitGroup
	var killErr error
	work.Go(func() {
		d.fleet.chain.Produce(streaming, time.Second/time.Duration(d.opt.blocksPerSecond))
	})
	work.Go(func() { d.fleet.forkEvery(streaming, demoForks) })
	work.Go(func() {
		d.waitForEnd(streaming)
		cancel()
	})
	if every := d.opt.killEvery; every > 0 {
		work.Go(func() {
			next := func(turn int) *simNode { return d.victim(streaming, turn) }
			killErr = d.fleet.kill(streaming, every/2, next, d.note)
		})
	}
	err := d.client.Ask(ship.BlocksRequest{
		V1: true, Start: demoStart, End: math.MaxUint32, MaxInFlight: demoCredit,
		FetchBlock: true, FetchTraces: true, FetchDeltas: true, FetchFinality: true,
	})
	if err == nil {
		d.showProgress(streaming)
	}
	cancel()
	work.Wait()
	if err := errors.Join(err, killErr); err != nil {
		return err
	}
	if err := d.verify(); err != nil {
		return err
	}
	if d.opt.stitched && d.opt.killEvery > 0 && ctx.Err() == nil && !isClosed(d.toured) {
		return errors.New("the client was too slow for every kind of node to be killed under it; give it a longer --duration")
	}
	return nil
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// waitForEnd waits for the duration, and then some more when the client is so
// slow that not every kind of node has been killed under it.
func (d *demo) waitForEnd(ctx context.Context) {
	if !pause(ctx, d.opt.duration) || !d.opt.stitched || d.opt.killEvery == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, d.opt.duration+demoPatience)
	defer cancel()
	select {
	case <-d.toured:
	case <-d.client.Done():
	case <-ctx.Done():
	}
}

// victim waits until a node is to be killed and picks the one that serves the
// client, so that a kill is felt. It returns nil when ctx ends. Its first turns
// are a tour: in each, it waits for the client to be in the next leg.
func (d *demo) victim(ctx context.Context, turn int) *simNode {
	legs := d.fleet.legs()
	leg := legs[min(turn, len(legs)-1)]
	if turn == len(legs) {
		close(d.toured)
	}
	if d.opt.stitched && turn < len(legs) {
		at := leg.Begin + min(demoIntoLeg, (leg.End-leg.Begin)/4)
		if d.client.Wait(ctx, func(r simulator.Report) bool { return r.Last.Num >= at }) != nil {
			return nil
		}
	} else if !pause(ctx, d.opt.killEvery-d.opt.killEvery/2) {
		return nil
	}
	holders := d.fleet.holders(leg.Begin)
	for _, n := range holders {
		if _, streaming := n.Links(); streaming > 0 {
			return n
		}
	}
	return holders[turn%len(holders)]
}

func (d *demo) note(n *simNode, killed bool) {
	if killed {
		d.kills.Add(1)
	}
	what := tale(n, killed)
	d.event.Store(&what)
}

// showProgress prints a line now and then, until ctx or the client ends.
func (d *demo) showProgress(ctx context.Context) {
	every, begin, end := time.Second, "", "\n"
	if isTerminal(d.out) {
		every, begin, end = 200*time.Millisecond, "\r\x1b[K", ""
		defer fmt.Fprintln(d.out)
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	start, last, before := time.Now(), time.Now(), uint64(0)
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.client.Done():
			return
		case <-tick.C:
		}
		r := d.client.Report()
		rate := float64(r.Blocks-before) / time.Since(last).Seconds()
		last, before = time.Now(), r.Blocks
		event := ""
		if e := d.event.Load(); e != nil {
			event = "  " + *e
		}
		fmt.Fprintf(d.out, "%s%5.1fs  block %d  %.0f blocks/s  lost %d  repeated %d  kills %d%s%s", begin,
			time.Since(start).Seconds(), r.Last.Num, rate, r.Missing, r.Duplicates, d.kills.Load(), event, end)
	}
}

// verify waits for the last block and says what was wrong, if anything.
func (d *demo) verify() error {
	head := d.fleet.chain.Head()
	r := d.client.Report()
	var err error
	for err == nil && r.Last != head {
		err = d.awaitMoreThan(r.Blocks)
		r = d.client.Report()
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		err = fmt.Errorf("the client stands still at block %d; the chain has %d", r.Last.Num, head.Num)
	case err != nil:
		err = fmt.Errorf("the client was closed at block %d: %w", r.Last.Num, err)
	}
	return errors.Join(err, r.Err())
}

func (d *demo) awaitMoreThan(blocks uint64) error {
	ctx, cancel := context.WithTimeout(context.Background(), demoPatience)
	defer cancel()
	return d.client.Wait(ctx, func(r simulator.Report) bool { return r.Blocks > blocks })
}

func (d *demo) summarize(failovers, handoffs int) {
	r := d.client.Report()
	handoff, failover := d.slowest()
	line := func(name string, value any) { fmt.Fprintf(d.out, "%-18s%v\n", name, value) }
	slowest := func(name string, count int, took time.Duration) {
		if count == 0 {
			line(name, "none")
			return
		}
		line(name, fmt.Sprintf("%.1f ms (the longest time without a block)", took.Seconds()*1000))
	}
	fmt.Fprintln(d.out)
	line("blocks", r.Blocks)
	line("duplicates", r.Duplicates)
	line("gaps", r.Gaps)
	line("forks delivered", r.Forks)
	line("nodes killed", d.kills.Load())
	if d.opt.stitched {
		line("handoffs", handoffs)
		slowest("slowest handoff", handoffs, handoff)
	}
	line("failovers", failovers)
	slowest("slowest failover", failovers, failover)
}

// slowest are the longest times between two blocks, at the seams and anywhere
// else. While blocks come all the time, the latter is a failover.
func (d *demo) slowest() (handoff, failover time.Duration) {
	seams := map[uint32]bool{}
	for _, leg := range d.fleet.legs()[1:] {
		seams[leg.Begin] = true
	}
	at := d.client.Arrivals()
	for i := 1; i < len(at); i++ {
		if at[i-1] < 0 {
			continue
		}
		if took := at[i] - at[i-1]; seams[demoStart+uint32(i)] {
			handoff = max(handoff, took)
		} else {
			failover = max(failover, took)
		}
	}
	return handoff, failover
}
