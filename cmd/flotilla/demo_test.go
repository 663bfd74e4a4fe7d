package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"flotilla/gateway/config"
)

func TestDemoLosesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var out bytes.Buffer
	o := demoOptions{nodes: 2, duration: 3 * time.Second, killEvery: time.Second, blocksPerSecond: 500, payload: 100}
	if err := runDemo(t.Context(), o, runGateway, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"duplicates        0\n", "gaps              0\n", "lost 0  repeated 0"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "failovers         0\n") {
		t.Errorf("the kills made no failover:\n%s", &out)
	}
}

func TestDemoEndsOnInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var out bytes.Buffer
	o := demoOptions{nodes: 1, duration: time.Hour, blocksPerSecond: 100}
	// The first line of progress stands for somebody who has seen enough.
	if err := runDemo(ctx, o, runGateway, writerFunc(func(p []byte) {
		out.Write(p)
		if bytes.Contains(p, []byte("blocks/s")) {
			cancel()
		}
	})); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "slowest failover  none") {
		t.Errorf("no summary:\n%s", &out)
	}
}

type writerFunc func(p []byte)

func (f writerFunc) Write(p []byte) (int, error) { f(p); return len(p), nil }

// TestDemoNoticesLoss puts something in the place of the gateway that hands the
// bytes on and knows nothing of failover.
func TestDemoNoticesLoss(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var out bytes.Buffer
	o := demoOptions{nodes: 2, duration: time.Minute, killEvery: 200 * time.Millisecond, blocksPerSecond: 100}
	err := runDemo(t.Context(), o, passBytesOn, &out)
	if err == nil || !strings.Contains(err.Error(), "the client was closed at block") {
		t.Errorf("error %v\n%s", err, &out)
	}
	if !strings.Contains(out.String(), "failovers         7\n") {
		t.Errorf("no summary:\n%s", &out)
	}
}

func TestStitchedDemoLosesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var out bytes.Buffer
	o := demoOptions{stitched: true, nodes: 2, duration: 5 * time.Second, killEvery: time.Second, blocksPerSecond: 500, payload: 100}
	if err := runDemo(t.Context(), o, runGateway, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{
		"duplicates        0\n", "gaps              0\n", "handoffs          2\n", "lost 0  repeated 0",
		"archive-1a has the blocks 2 to ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, &out)
		}
	}
	for _, wrong := range []string{"failovers         0\n", "slowest handoff   none"} {
		if strings.Contains(out.String(), wrong) {
			t.Errorf("the output has %q:\n%s", wrong, &out)
		}
	}
}

// The first node is a live one, which has no history.
func TestStitchedDemoNoticesLoss(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var out bytes.Buffer
	o := demoOptions{stitched: true, nodes: 2, duration: time.Second, blocksPerSecond: 100}
	err := runDemo(t.Context(), o, passBytesOn, &out)
	if err == nil || !strings.Contains(err.Error(), "results without ids") {
		t.Errorf("error %v\n%s", err, &out)
	}
	if !strings.Contains(out.String(), "handoffs          0\n") || !strings.Contains(out.String(), "slowest handoff   none\n") {
		t.Errorf("no summary:\n%s", &out)
	}
}

func TestDemoGatewayDoesNotStart(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	broken := errors.New("no port")
	err := runDemo(t.Context(), demoOptions{nodes: 1, duration: time.Minute, blocksPerSecond: 1},
		func(context.Context, *config.Config, func(map[string]net.Addr)) error { return broken }, io.Discard)
	if !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
}

func passBytesOn(ctx context.Context, cfg *config.Config, ready func(map[string]net.Addr)) error {
	metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "fleet_router_failovers_total{reason=\"unclean\"} 7\n")
	}))
	defer metrics.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	ready(map[string]net.Addr{"admin": metrics.Listener.Addr(), cfg.Listeners[0].Name: l.Addr()})
	var work sync.WaitGroup
	defer work.Wait()
	for {
		client, err := l.Accept()
		if err != nil {
			return nil
		}
		node, err := net.Dial("tcp", cfg.Listeners[0].Servers[0].Endpoint)
		if err != nil {
			_ = client.Close()
			continue
		}
		link := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			_ = to.Close()
			_ = from.Close()
		}
		work.Go(func() { link(client, node) })
		work.Go(func() { link(node, client) })
	}
}

func TestSimulationFlags(t *testing.T) {
	for _, tt := range []struct {
		args string
		want string
	}{
		{"demo --nodes 0", "--nodes"},
		{"demo --nodes 101", "--nodes"},
		{"demo --duration 0", "--duration"},
		{"demo --blocks-per-second 0", "--blocks-per-second"},
		{"demo --payload -1", "--payload"},
		{"demo --kill-every -1s", "never"},
		{"demo more", "more"},
		{"sim --nodes 0", "--nodes"},
		{"sim --base-port 65534 --nodes 3", "--base-port"},
		{"demo --stitched --nodes 0", "--nodes"},
		{"sim --archives -1", "--archives"},
		{"sim --archives 101", "--archives"},
		{"sim --base-port 65530 --nodes 2 --archives 3", "8 ports"},
		{"sim --archives 1 --history 12", "--history"},
		{"sim --interval 0", "--interval"},
		{"sim --lib-lag 0", "--lib-lag"},
		{"sim --history 0", "--history"},
		{"sim --payload 100000000", "--payload"},
		{"sim --fork-every -1s", "never"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			args := strings.Fields(tt.args)
			cmd := newSimCommand()
			if args[0] == "demo" {
				cmd = newDemoCommand()
			}
			cmd.SetArgs(args[1:])
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			err := cmd.ExecuteContext(t.Context())
			var usage usageError
			if !errors.As(err, &usage) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want a usage error with %q", err, tt.want)
			}
		})
	}
}
