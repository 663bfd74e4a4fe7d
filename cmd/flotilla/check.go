package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"time"

	"flotilla/gateway/config"

	"github.com/spf13/cobra"
)

const (
	checkTimeout = 4 * time.Second
	checkPort    = 17000
)

// newCheckCommand is "flotilla check": it connects to the port of a running
// gateway, for the health check of a container, and is silent on success.
func newCheckCommand() *cobra.Command {
	var port uint16
	var address string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Exit with 0 if a running gateway accepts connections",
		Long: "Connect to each client port within 4 seconds, and say nothing if that works.\n\n" +
			"The ports are those of the file that --config names. --port takes a port of 127.0.0.1 in its place,\n" +
			"--address any address. Without any of them it is 127.0.0.1:17000.",
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			addresses := []string{loopback(checkPort)}
			switch {
			case cmd.Flags().Changed("address"):
				addresses = []string{address}
			case cmd.Flags().Changed("port"):
				addresses = []string{loopback(port)}
			case cmd.Flags().Changed("config"):
				path, err := cmd.Flags().GetString("config")
				if err != nil {
					return err
				}
				cfg, _, err := config.Load(path)
				if err != nil {
					return err
				}
				addresses = reachable(cfg)
			}
			return connect(cmd.Context(), addresses)
		},
	}
	cmd.Flags().Uint16Var(&port, "port", checkPort, "port on 127.0.0.1")
	cmd.Flags().StringVar(&address, "address", "", "host:port")
	cmd.MarkFlagsMutuallyExclusive("port", "address")
	return cmd
}

func loopback(port uint16) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))) }

// reachable are the addresses to connect to for the listeners of cfg: loopback
// where they are bound to all interfaces.
func reachable(cfg *config.Config) []string {
	var out []string
	for _, l := range cfg.Listeners {
		out = append(out, dialable(l.Address))
	}
	return out
}

// dialable is where to connect to for a port that is bound to an address.
func dialable(address string) string {
	bound, err := netip.ParseAddrPort(address)
	if err != nil || !bound.Addr().IsUnspecified() {
		return address
	}
	host := "127.0.0.1"
	if bound.Addr().Is6() {
		host = "::1"
	}
	return net.JoinHostPort(host, strconv.Itoa(int(bound.Port())))
}

func connect(ctx context.Context, addresses []string) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	var errs []error
	for _, address := range addresses {
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			errs = append(errs, fmt.Errorf("nothing accepts connections on %s: %w", address, err))
			continue
		}
		errs = append(errs, conn.Close())
	}
	return errors.Join(errs...)
}
