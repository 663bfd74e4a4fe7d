package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"
)

// simOutput runs a simulation and hands its lines to f; it ends when f returns.
func simOutput(t *testing.T, o simOptions, f func(ctx context.Context, next func() string)) {
	t.Helper()
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		err := runSim(ctx, o, w)
		_ = w.CloseWithError(err)
		done <- err
	}()
	lines := bufio.NewScanner(r)
	f(ctx, func() string {
		if !lines.Scan() {
			t.Fatalf("no more output: %v", lines.Err())
		}
		return lines.Text()
	})
	cancel()
	_ = r.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestSimPrintsAConfiguration(t *testing.T) {
	o := simOptions{nodes: 3, interval: time.Millisecond, libLag: 12, history: 50, forkEvery: 20 * time.Millisecond, payload: 100}
	simOutput(t, o, func(ctx context.Context, next func() string) {
		var text strings.Builder
		for line := next(); line != "}"; line = next() {
			if !strings.Contains(line, ": ws://") {
				text.WriteString(line + "\n")
			}
		}
		cfg, _, err := config.Parse("sim.hcl", []byte(text.String()+"}\n"))
		if err != nil {
			t.Fatal(err)
		}
		servers := cfg.Listeners[0].Servers
		if len(servers) != 3 {
			t.Fatalf("%d servers in\n%s", len(servers), &text)
		}
		c, err := simulator.Dial(ctx, "ws://"+servers[2].Endpoint, simulator.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		status, err := c.Status(ctx, true)
		if err != nil {
			t.Fatal(err)
		}
		if status.Head.Num < 50 || status.ChainID != *cfg.Listeners[0].ChainID {
			t.Errorf("status %+v", status)
		}
		if err := c.Ask(ship.BlocksRequest{Start: 2, End: 1 << 30, MaxInFlight: 1 << 30}); err != nil {
			t.Fatal(err)
		}
		if err := c.Wait(ctx, func(r simulator.Report) bool { return r.Last.Num > 100 && r.Forks > 0 }); err != nil {
			t.Error(err)
		}
	})
}

func TestSimWithArchives(t *testing.T) {
	o := simOptions{nodes: 1, archives: 2, interval: time.Second, libLag: 12, history: 50}
	simOutput(t, o, func(_ context.Context, next func() string) {
		for _, want := range []string{"node-1", "archive-1a", "archive-1b", "archive-2a", "archive-2b"} {
			if line := next(); !strings.HasPrefix(line, want+": ws://") {
				t.Errorf("line %q, want one of %s", line, want)
			}
		}
		for line := next(); !strings.Contains(line, "end = 39"); line = next() {
			if line == "}" {
				t.Fatal("no archive ends behind the last irreversible block")
			}
		}
	})
}

func TestSimKillsInTurn(t *testing.T) {
	o := simOptions{nodes: 2, interval: time.Second, libLag: 1, history: 1, killEvery: 40 * time.Millisecond}
	simOutput(t, o, func(_ context.Context, next func() string) {
		for _, want := range []string{"node-1 is killed", "node-1 is back", "node-2 is killed", "node-2 is back", "node-1 is killed"} {
			line := next()
			for !strings.HasSuffix(line, "is killed") && !strings.HasSuffix(line, "is back") {
				line = next()
			}
			if !strings.HasSuffix(line, want) {
				t.Errorf("line %q, want %q", line, want)
			}
		}
	})
}

func TestSimPortTaken(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	o := simOptions{nodes: 1, basePort: l.Addr().(*net.TCPAddr).Port, interval: time.Second, libLag: 1, history: 1}
	if err := runSim(t.Context(), o, io.Discard); err == nil {
		t.Error("two processes share a port")
	}
}
