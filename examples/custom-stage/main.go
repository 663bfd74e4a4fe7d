// Command custom-stage is flotilla with a stage of its own: a quota of blocks
// for each client address. Its configuration is beside it, quota.hcl.
package main

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/pipeline"
)

// quota is the stage and its block, stage "quota" { after = "dedup" }: what
// comes out of dedup is what the client gets.
type quota struct {
	Blocks uint64 `hcl:"blocks"`
	Per    string `hcl:"per,optional"`

	period time.Duration
	mu     sync.Mutex
	since  time.Time
	used   map[string]uint64
}

func newQuota() pipeline.Stage { return &quota{Per: "1m", used: map[string]uint64{}} }

// Validate is called when the configuration is read; Name and Down make a stage.
func (q *quota) Validate() (err error) {
	if q.period, err = time.ParseDuration(q.Per); err != nil || q.period <= 0 {
		return fmt.Errorf("per is %q; a time such as \"1m\" is expected", q.Per)
	}
	return nil
}

func (q *quota) Name() string { return "quota" }

// Down counts a block, and closes the client that has had too many. One stage
// serves all sessions of a listener, so it locks what it remembers.
func (q *quota) Down(x *pipeline.Exchange, _ *pipeline.Result) pipeline.Step {
	q.mu.Lock()
	defer q.mu.Unlock()
	if x.Now.Sub(q.since) >= q.period {
		clear(q.used)
		q.since = x.Now
	}
	q.used[x.Client.Address]++
	if q.used[x.Client.Address] > q.Blocks {
		return pipeline.Closing(1008, "more than %d blocks in %s", q.Blocks, q.Per)
	}
	return pipeline.Step{}
}

// serve runs the configuration until ctx ends.
func serve(ctx context.Context, path string, opts gateway.Options) error {
	cfg, _, err := config.Load(path)
	if err != nil {
		return err
	}
	return gateway.Run(ctx, cfg, opts)
}

func main() {
	gateway.RegisterStage("quota", newQuota)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := serve(ctx, "quota.hcl", gateway.Options{Logger: slog.Default()}); err != nil {
		log.Fatal(err)
	}
}
