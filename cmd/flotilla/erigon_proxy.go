package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/logging"

	"github.com/spf13/cobra"
)

func newErigonProxyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "erigon-proxy",
		Short: "Serve as erigon_proxy does, from the same environment variables",
		Long: `Serve as erigon_proxy does, from the same environment variables: EVM JSON-RPC
on BIND_ADDR:8545, the management API on 127.0.0.1:8081.

SIGTERM drains for SHUTDOWN_DRAIN_SECONDS: the probe /_health says 503, calls are
still served. SIGINT ends at once.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return erigonProxy(cmd) },
	}
}

func erigonProxy(cmd *cobra.Command) error {
	cfg, warnings, err := config.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	log, level := logging.New(cmd.OutOrStdout(), logging.Options{Format: logging.Text})
	for _, w := range warnings {
		log.Warn(w)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)

	force, stopped := make(chan struct{}), make(chan struct{})
	var background sync.WaitGroup
	background.Go(func() { tidy(ctx) })
	background.Go(func() { drainOrLeave(signals, stopped, log, cancel, force) })
	err = gateway.Run(ctx, cfg, gateway.Options{Logger: log, Level: level, Version: version(), Commit: commit(), Force: force})
	cancel()
	close(stopped)
	background.Wait()
	return err
}

// drainOrLeave begins the drain at SIGTERM. SIGINT, and a second signal, end it.
func drainOrLeave(signals <-chan os.Signal, stopped <-chan struct{}, log *slog.Logger, drain func(), force chan<- struct{}) {
	for count := 1; ; count++ {
		select {
		case s := <-signals:
			log.Info("signal", "signal", s.String())
			drain()
			if s == os.Interrupt || count == 2 {
				close(force)
				return
			}
		case <-stopped:
			return
		}
	}
}
