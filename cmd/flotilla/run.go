package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
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
	log, _ := logging.New(cmd.OutOrStdout(), logging.Options{Format: format})
	path, err := cmd.Flags().GetString("config")
	if err != nil {
		return err
	}
	cfg, warnings, err := config.Load(path)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		log.Warn(fmt.Sprint(w))
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	defer signal.Stop(signals)
	force := make(chan struct{})
	stopped := make(chan struct{})
	defer close(stopped)
	go func() {
		for _, act := range []func(){cancel, func() { close(force) }} {
			select {
			case s := <-signals:
				log.Info("signal", "signal", s.String())
				act()
			case <-stopped:
				return
			}
		}
	}()
	return gateway.Run(ctx, cfg, gateway.Options{Logger: log, Version: version(), Commit: commit(), Force: force})
}
