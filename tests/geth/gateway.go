//go:build geth

package geth

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Gateway is the product, running as its users run it.
type Gateway struct {
	// Addr is host:port of the client port, Admin that of the admin port.
	Addr, Admin string
}

// StartGateway builds the product, with the race detector when the test has it,
// runs it in front of the fleet, and returns when all nodes are in its pool. It
// is stopped with the test, which fails when it does not end in good order.
// FLOTILLA_BIN names a binary to take instead.
func (f *Fleet) StartGateway(t testing.TB) *Gateway {
	t.Helper()
	g := &Gateway{Addr: freeAddr(t), Admin: freeAddr(t)}
	f.write(t, "flotilla.hcl", f.config(g))
	log, err := os.Create(f.path("flotilla.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(build(t), "run", "--config", f.path("flotilla.hcl"))
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case err := <-exited:
			if err != nil {
				t.Errorf("the gateway ended with %v", err)
			}
		case <-time.After(20 * time.Second):
			_ = cmd.Process.Kill()
			<-exited
			t.Error("the gateway did not end within 20s of SIGTERM")
		}
		if t.Failed() {
			t.Logf("the end of the gateway's log:\n%s", tail(log.Name()))
		}
	})
	for _, n := range f.Nodes {
		g.WaitHealthy(t, n, true)
	}
	return g
}

func (f *Fleet) config(g *Gateway) string {
	var b strings.Builder
	fmt.Fprintf(&b, "admin {\n  address = %q\n}\n\nlistener \"evm\" \"test\" {\n  address  = %q\n  chain_id = %d\n\n", g.Admin, g.Addr, chainID)
	b.WriteString("  health {\n    interval = \"200ms\"\n    readmit  = \"1s\"\n  }\n")
	for _, n := range f.Nodes {
		fmt.Fprintf(&b, "\n  server %q { endpoint = \"http://%s\" }\n", n.Name, n.Addr)
	}
	b.WriteString("}\n")
	return b.String()
}

func build(t testing.TB) string {
	t.Helper()
	if bin := os.Getenv("FLOTILLA_BIN"); bin != "" {
		return bin
	}
	bin := filepath.Join(t.TempDir(), "flotilla")
	args := []string{"build", "-o", bin}
	if info, ok := debug.ReadBuildInfo(); ok && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"}) {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "flotilla/cmd/flotilla")...).CombinedOutput(); err != nil {
		t.Fatalf("build the product: %v\n%s", err, out)
	}
	return bin
}

// WaitHealthy returns when the gateway has a node in its pool, or out of it.
func (g *Gateway) WaitHealthy(t testing.TB, n *Node, in bool) {
	t.Helper()
	want := 0.0
	if in {
		want = 1
	}
	Eventually(t, startTimeout, fmt.Sprintf("the gateway does not come to %s in its pool: %v,", n.Name, in), func() bool {
		got, err := g.metric("flotilla_evm_node_healthy", `server="`+n.Name+`"`)
		return err == nil && got == want
	})
}

// Metric is the sum of the samples of a metric.
func (g *Gateway) Metric(t testing.TB, name string) float64 {
	t.Helper()
	sum, err := g.metric(name, "")
	if err != nil {
		t.Fatal(err)
	}
	return sum
}

// metric is the sum of the samples whose labels contain label. It is an error
// when there are none.
func (g *Gateway) metric(name, label string) (sum float64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.Admin+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err
	}
	found := false
	for line := range strings.Lines(string(text)) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if base, _, _ := strings.Cut(series, "{"); !ok || base != name || !strings.Contains(series, label) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("/metrics has %q: %w", line, err)
		}
		sum, found = sum+v, true
	}
	if !found {
		return 0, fmt.Errorf("/metrics has no %s with %s", name, label)
	}
	return sum, nil
}
