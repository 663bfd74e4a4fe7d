package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"
)

func TestMain(m *testing.M) {
	gateway.RegisterStage("quota", newQuota)
	os.Exit(m.Run())
}

func TestConfiguration(t *testing.T) {
	cfg, warnings, err := config.Load("quota.hcl")
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if s := cfg.Listeners[0].Stages; len(s) != 1 || s[0].After != "dedup" || s[0].Settings.(*quota).Blocks != 100_000 {
		t.Errorf("the stages are %+v", s)
	}
	_, _, err = config.Parse("x.hcl", []byte(`listener "ship" "a" {
  address = "127.0.0.1:1"
  stage "quota" {
    after = "dedup"
    blocks = 1
    per = "soon"
  }
  server "a" { endpoint = "h:1" }
}`))
	if err == nil || !strings.Contains(err.Error(), `per is "soon"`) {
		t.Errorf("the error is %v", err)
	}
}

// anyPort opens free ports, whatever the configuration says.
type anyPort struct{ net.Dialer }

func (anyPort) Listen(string) (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

// The whole example on a simulated node: a client gets its blocks, and a Close
// with the reason in place of one more.
func TestQuota(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	node, err := simulator.Start(simulator.NewChain(simulator.ChainOptions{Head: 500}), simulator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer node.Close()
	path := filepath.Join(t.TempDir(), "quota.hcl")
	text := fmt.Sprintf(`shutdown_grace = "0s"
listener "ship" "eos" {
  address = "127.0.0.1:17000"
  stage "quota" {
    after  = "dedup"
    blocks = 100
    per    = "1h"
  }
  server "a" { endpoint = %q }
}`, node.Addr())
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(ctx)
	ended, up := make(chan struct{}), make(chan map[string]net.Addr, 1)
	go func() {
		defer close(ended)
		if err := serve(serving, path, gateway.Options{
			Logger: slog.New(slog.DiscardHandler), Network: &anyPort{}, Ready: func(a map[string]net.Addr) { up <- a },
		}); err != nil {
			t.Error(err)
		}
	}()
	defer func() {
		stop()
		<-ended
	}()
	var address string
	select {
	case a := <-up:
		address = a["eos"].String()
	case <-ended:
		t.FailNow()
	}
	c, err := simulator.Dial(ctx, "ws://"+address+"/", simulator.ClientOptions{AckEvery: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ask(ship.BlocksRequest{V1: true, Start: 2, End: 400, MaxInFlight: 10, FetchBlock: true}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.Done():
	case <-ctx.Done():
		t.Fatal("the client is still there")
	}
	if end, _ := c.End(); end.Code != 1008 || end.Reason != "more than 100 blocks in 1h" {
		t.Errorf("the client's end is %v", end)
	}
	if n := c.Report().Blocks; n != 100 {
		t.Errorf("the client got %d blocks, 100 are allowed", n)
	}
}
