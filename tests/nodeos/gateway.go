//go:build nodeos

package nodeos

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
	// SHiP and Admin are host:port of the client port and of the admin port.
	SHiP, Admin string
	// API is that of the chain API; empty without one.
	API string
}

// BuildGateway builds the product's binary, with the race detector when the
// test has it, and returns its path. FLOTILLA_BIN names a binary to take
// instead.
func BuildGateway(t testing.TB) string {
	t.Helper()
	if bin := os.Getenv("FLOTILLA_BIN"); bin != "" {
		return bin
	}
	bin := filepath.Join(t.TempDir(), "flotilla")
	args := []string{"build", "-o", bin}
	if raceEnabled() {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, "flotilla/cmd/flotilla")...).CombinedOutput(); err != nil {
		t.Fatalf("build the product: %v\n%s", err, out)
	}
	return bin
}

func raceEnabled() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}

// StartGateway runs the product in front of the fleet's relays and returns
// when its admin port and its client port serve, which is before it has found
// the relays. The configuration is written in the format that the name ends
// in, .json for fleet-router's or .hcl. The gateway is stopped with the test,
// which fails when it does not end in good order.
func (f *Fleet) StartGateway(t testing.TB, bin, configName string) *Gateway {
	t.Helper()
	info, err := f.Producer.Info()
	if err != nil {
		t.Fatal(err)
	}
	g := &Gateway{SHiP: FreeAddr(t), Admin: FreeAddr(t)}
	config := filepath.Join(t.TempDir(), configName)
	if filepath.Ext(configName) == ".hcl" {
		err = os.WriteFile(config, []byte(f.hclConfig(g, info.ChainID)), 0o644)
	} else {
		writeJSON(t, config, f.jsonConfig(g, info.ChainID))
	}
	if err != nil {
		t.Fatal(err)
	}
	g.run(t, bin, config)
	return g
}

func (f *Fleet) jsonConfig(g *Gateway, chainID string) map[string]any {
	var servers []map[string]any
	for _, r := range f.Relays {
		servers = append(servers, map[string]any{"name": r.Name, "endpoint": r.SHiP, "enabled": true})
	}
	return map[string]any{
		"listen_address":         "127.0.0.1",
		"listen_port":            port(g.SHiP),
		"metrics_address":        "127.0.0.1",
		"metrics_port":           port(g.Admin),
		"chain_id":               chainID,
		"upstream_reconnect_ms":  200,
		"upstream_monitoring_ms": 5000,
		"upstream_status_ms":     1000,
		"servers":                servers,
	}
}

func (f *Fleet) hclConfig(g *Gateway, chainID string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "admin {\n  address = %q\n}\n\n", g.Admin)
	fmt.Fprintf(&b, "listener \"ship\" \"test\" {\n  address            = %q\n  chain_id           = %q\n", g.SHiP, chainID)
	b.WriteString("  upstream_reconnect = \"200ms\"\n  upstream_status    = \"1s\"\n")
	for _, r := range f.Relays {
		fmt.Fprintf(&b, "\n  server %q {\n    endpoint = %q\n  }\n", r.Name, r.SHiP)
	}
	b.WriteString("}\n")
	return b.String()
}

func (g *Gateway) run(t testing.TB, bin, config string) {
	t.Helper()
	log, err := os.Create(config + ".log")
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.Command(bin, "run", "--config", config)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var failed error
	exited := make(chan struct{})
	go func() {
		failed = cmd.Wait()
		close(exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
			if failed != nil {
				t.Errorf("the gateway ended with %v", failed)
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
	Eventually(t, startTimeout, "the gateway does not serve", func() bool {
		select {
		case <-exited:
			t.Fatalf("the gateway ended at its start: %v", failed)
		default:
		}
		code, _, err := g.get("/health")
		return err == nil && code == http.StatusOK && accepts(g.SHiP)
	})
}

// Ready reports what the readiness probe says.
func (g *Gateway) Ready(t testing.TB) bool {
	t.Helper()
	code, body, err := g.get("/ready")
	if err != nil {
		t.Fatal(err)
	}
	if code != http.StatusOK && code != http.StatusServiceUnavailable {
		t.Fatalf("/ready answers %d: %s", code, body)
	}
	return code == http.StatusOK
}

// WaitUp returns when the gateway takes all these nodes as up.
func (g *Gateway) WaitUp(t testing.TB, nodes ...*Node) {
	t.Helper()
	for _, n := range nodes {
		g.waitServerUp(t, n.Name)
	}
}

func (g *Gateway) waitServerUp(t testing.TB, name string) {
	t.Helper()
	Eventually(t, startTimeout, "the gateway does not find "+name+" up", func() bool {
		return g.Metric(t, "fleet_router_upstream_up", `server="`+name+`"`) == 1
	})
}

// Serving is the node that the gateway's only session is connected to.
func (g *Gateway) Serving(t testing.TB, nodes []*Node) *Node {
	t.Helper()
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return nodes[slices.Index(names, g.servingServer(t, names))]
}

// servingServer is the one of these servers that the gateway's only session is
// connected to.
func (g *Gateway) servingServer(t testing.TB, names []string) (serving string) {
	t.Helper()
	Eventually(t, startTimeout, "the session is not on exactly one server", func() bool {
		count := 0
		for _, name := range names {
			if g.Metric(t, "fleet_router_active_connections", `server="`+name+`"`) > 0 {
				serving = name
				count++
			}
		}
		return count == 1
	})
	return serving
}

// Failovers is how often sessions have lost their node and got another.
func (g *Gateway) Failovers(t testing.TB) float64 {
	t.Helper()
	return g.Metric(t, "fleet_router_failovers_total", "")
}

// Metric is the sum of the samples of a metric whose labels contain label.
func (g *Gateway) Metric(t testing.TB, name, label string) float64 {
	t.Helper()
	code, body, err := g.get("/metrics")
	if err != nil || code != http.StatusOK {
		t.Fatalf("/metrics: %d, %v", code, err)
	}
	var sum float64
	for line := range strings.Lines(body) {
		series, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if base, _, _ := strings.Cut(series, "{"); !ok || base != name || !strings.Contains(series, label) {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			t.Fatalf("/metrics has %q: %v", line, err)
		}
		sum += v
	}
	return sum
}

func (g *Gateway) get(path string) (code int, body string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+g.Admin+path, nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}

func port(addr string) int {
	_, p, _ := strings.Cut(addr, ":")
	n, _ := strconv.Atoi(p) // from FreeAddr, so a number
	return n
}
