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

func newRunCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve the configuration until SIGINT or SIGTERM",
		Long: `Serve the configuration until SIGINT or SIGTERM.

The first signal closes the clients with 1001 and waits for them, at most
shutdown_grace; a second one ends the wait.`,
		Args: usageArgs(cobra.NoArgs),
	}
	cmd.Flags().String("log-format", "auto", "auto, text or json; auto is text on a terminal")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return run(cmd) }
	return cmd
}

func run(cmd *cobra.Command) error {
	value, err := cmd.Flags().GetString("log-format")
	if err != nil {
		return err
	}
	format, err := logging.ParseFormat(value)
	if err != nil {
		return usageError{err}
	}
	log, level := logging.New(cmd.OutOrStdout(), logging.Options{Format: format})
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return err
	}
	cfg, warnings, err := config.Load(path)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		log.Warn(w.String())
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)

	watcher := gateway.NewWatcher(path, cfg, log)
	force := make(chan struct{})
	stopped := make(chan struct{})
	var background sync.WaitGroup
	background.Go(func() { tidy(ctx) })
	background.Go(func() { watcher.Run(ctx, hangup) })
	background.Go(func() { obey(signals, stopped, log, cancel, func() { close(force) }) })
	err = gateway.Run(ctx, cfg, gateway.Options{Logger: log, Level: level, Version: version(), Commit: commit(), Reload: watcher.Reloads(), Force: force})
	cancel()
	close(stopped)
	background.Wait()
	return err
}

// obey does one act for each signal, until all are done or stopped is closed.
func obey(signals <-chan os.Signal, stopped <-chan struct{}, log *slog.Logger, acts ...func()) {
	for _, act := range acts {
		select {
		case s := <-signals:
			log.Info("signal", "signal", s.String())
			act()
		case <-stopped:
			return
		}
	}
}
