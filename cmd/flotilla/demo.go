package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"
)

type demoOptions struct {
	nodes           int
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
			"changed, or if the client is closed.",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
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
	f.IntVar(&o.nodes, "nodes", 3, "number of nodes")
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

// gatewayFunc runs a gateway until ctx ends. It calls ready once, with the
// bound address of each listener by name and of "admin".
type gatewayFunc func(ctx context.Context, cfg *config.Config, ready func(map[string]net.Addr)) error

func runGateway(ctx context.Context, cfg *config.Config, ready func(map[string]net.Addr)) error {
	return gateway.Run(ctx, cfg, gateway.Options{Logger: slog.New(slog.DiscardHandler), Ready: ready})
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
	// demoPatience limits the start, and the time without a block at the end.
	demoPatience = 15 * time.Second
)

// runDemo runs the demo for its duration, or until ctx ends, and reports on
// out. The error says what the client has lost.
func runDemo(ctx context.Context, o demoOptions, run gatewayFunc, out io.Writer) (err error) {
	chain := simulator.NewChain(simulator.ChainOptions{
		Seed: "demo", Head: uint32(min(demoHistory, 2+demoHistoryBytes/(o.payload+1))),
		LIBLag: demoLIBLag, Sizes: splitPayload(o.payload),
	})
	nodes, err := startNodes(chain, make([]string, o.nodes))
	if err != nil {
		return err
	}
	defer closeNodes(nodes)

	gw, err := startGateway(ctx, chain, nodes, run)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gw.stop()) }()

	client, err := gw.dial(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	fmt.Fprintf(out, "%d simulated nodes, the gateway on %s, one client; for %v.\n", o.nodes, gw.ship, o.duration)

	d := &demo{opt: o, chain: chain, nodes: nodes, client: client, out: out}
	verdict := d.run(ctx)
	failovers, err := gw.failovers()
	if err == nil {
		d.summarize(failovers)
	}
	return errors.Join(verdict, err)
}

// runningGateway is a gateway on ports of its own.
type runningGateway struct {
	ship, admin net.Addr
	cancel      context.CancelFunc
	done        chan error
}

func startGateway(ctx context.Context, chain *simulator.Chain, nodes []*simulator.Node, run gatewayFunc) (*runningGateway, error) {
	cfg, _, err := config.Parse("demo.hcl", []byte(fleetText(chain.ID(), nodes)))
	if err != nil {
		return nil, fmt.Errorf("the configuration of the demo: %w", err)
	}
	// A file cannot ask for a free port, as it would not say which.
	cfg.Admin.Address, cfg.Listeners[0].Address = "127.0.0.1:0", "127.0.0.1:0"

	// The gateway outlives an interrupt, so that the summary can be read.
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	gw := &runningGateway{cancel: cancel, done: make(chan error, 1)}
	ready := make(chan map[string]net.Addr, 1)
	go func() { gw.done <- run(ctx, cfg, func(bound map[string]net.Addr) { ready <- bound }) }()
	select {
	case bound := <-ready:
		gw.ship, gw.admin = bound[cfg.Listeners[0].Name], bound["admin"]
		return gw, nil
	case err := <-gw.done:
		cancel()
		return nil, fmt.Errorf("the gateway does not start: %w", err)
	}
}

func (gw *runningGateway) stop() error {
	gw.cancel()
	return <-gw.done
}

// dial connects the client, again and again until the gateway knows its nodes.
func (gw *runningGateway) dial(ctx context.Context) (*simulator.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, demoPatience)
	defer cancel()
	for {
		c, err := simulator.Dial(ctx, "ws://"+gw.ship.String()+"/", simulator.ClientOptions{AckEvery: demoAcks, CheckPayload: true})
		if err == nil {
			return c, nil
		}
		if !pause(ctx, 50*time.Millisecond) {
			return nil, err
		}
	}
}

// failovers reads from the gateway's metrics how often a link was replaced.
func (gw *runningGateway) failovers() (int, error) {
	c := http.Client{Timeout: demoPatience, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get("http://" + gw.admin.String() + "/metrics")
	if err != nil {
		return 0, fmt.Errorf("read the gateway's metrics: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	return sumMetric(resp.Body, "fleet_router_failovers_total")
}

// sumMetric adds up all series of a metric in the Prometheus text format.
func sumMetric(r io.Reader, name string) (int, error) {
	sum := 0.0
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), name)
		if !ok || !strings.HasPrefix(rest, "{") && !strings.HasPrefix(rest, " ") {
			continue
		}
		v, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, fmt.Errorf("metric %s: %w", name, err)
		}
		sum += v
	}
	return int(sum), lines.Err()
}

// demo is a demo in progress.
type demo struct {
	opt    demoOptions
	chain  *simulator.Chain
	nodes  []*simulator.Node
	client *simulator.Client
	out    io.Writer

	kills atomic.Int64
	event atomic.Pointer[string]
}

// run streams until the time is over and everything has arrived.
func (d *demo) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, d.opt.duration)
	defer cancel()
	var work sync.WaitGroup
	var killErr error
	work.Go(func() { d.chain.Produce(ctx, time.Second/time.Duration(d.opt.blocksPerSecond)) })
	work.Go(func() { forkEvery(ctx, d.chain, demoForks) })
	work.Go(func() {
		killErr = killEvery(ctx, d.nodes, d.opt.killEvery, d.nodeInUse, d.note)
	})
	err := d.client.Ask(ship.BlocksRequest{
		V1: true, Start: 2, End: math.MaxUint32, MaxInFlight: demoCredit,
		FetchBlock: true, FetchTraces: true, FetchDeltas: true, FetchFinality: true,
	})
	if err == nil {
		d.showProgress(ctx)
	}
	cancel()
	work.Wait()
	if err := errors.Join(err, killErr); err != nil {
		return err
	}
	return d.verify()
}

// nodeInUse is the node that serves the client, so that a kill is felt.
func (d *demo) nodeInUse(turn int) int {
	for i, n := range d.nodes {
		if _, streaming := n.Links(); streaming > 0 {
			return i
		}
	}
	return turn % len(d.nodes)
}

func (d *demo) note(what string) {
	if strings.HasSuffix(what, "killed") {
		d.kills.Add(1)
	}
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
	head := d.chain.Head()
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

func (d *demo) summarize(failovers int) {
	r := d.client.Report()
	slowest := "none"
	if failovers > 0 {
		// While blocks come all the time, the longest silence is a failover.
		slowest = fmt.Sprintf("%d ms (the longest time without a block)", r.LongestSilence.Milliseconds())
	}
	fmt.Fprintf(d.out, "\nblocks            %d\nduplicates        %d\ngaps              %d\nforks delivered   %d\n"+
		"nodes killed      %d\nfailovers         %d\nslowest failover  %s\n",
		r.Blocks, r.Duplicates, r.Gaps, r.Forks, d.kills.Load(), failovers, slowest)
}
