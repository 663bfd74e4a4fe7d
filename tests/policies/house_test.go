// Package policies tests scripts, and what the product tells of them, with all
// protocols at once: real sockets, and the real admin port.
package policies

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
	"flotilla/policies/choice"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is how long something may take on a busy machine.
const patience = time.Minute

// house is the product with a listener of each kind, and a script for each.
type house struct {
	t *testing.T
	// folder has the scripts: pool.lua, which decides for the chain API too,
	// range.lua and evm.lua.
	folder string
	// addresses are those of the ports by name; admin is one of them.
	addresses map[string]net.Addr
	client    *http.Client
	reload    chan gateway.Reload
	text      string
}

const (
	head   = 600
	libLag = 20
	seam   = 300
)

// newHouse starts it, with this script for every listener, and a time for its
// calls.
//
// pool has the nodes a and b, and gone, which is down; range an archive of the
// blocks below 300 and a live node that has them from there on; main the nodes
// e0, e1 and e2, of which e2 is two blocks behind.
func newHouse(t *testing.T, script, timeout string) *house {
	t.Helper()
	h := &house{t: t, folder: t.TempDir(), reload: make(chan gateway.Reload)}
	h.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: patience}
	for _, name := range []string{"pool", "range", "evm"} {
		h.script(name, script)
	}
	chain := simulator.NewChain(simulator.ChainOptions{Head: head, LIBLag: libLag})
	id := chain.ID()
	ship := func(o simulator.Options) string { return h.ship(chain, o) }
	api := func() string {
		a, err := simulator.StartAPI(chain, simulator.APIOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Close)
		return "http://" + a.Addr()
	}
	evm := simulator.NewEVMChain(1337, 98)
	var nodes []string
	for i := range 3 {
		n := simulator.NewEVMNode(fmt.Sprintf("e%d", i), evm)
		if i < 2 {
			n.Import(100)
		}
		p := httptest.NewServer(n)
		t.Cleanup(func() { p.CloseClientConnections(); p.Close() })
		nodes = append(nodes, p.URL)
	}
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	policy := func(name string) string {
		return fmt.Sprintf("policy \"lua\" {\n    script  = %q\n    timeout = \"%s\"\n    headers = [\"x-account\"]\n  }", filepath.Join(h.folder, name+".lua"), timeout)
	}
	h.text = fmt.Sprintf(`shutdown_grace = "0s"
admin { address = "127.0.0.1:1" }
listener "ship" "pool" {
  address  = "127.0.0.1:2"
  %s
  chain_api {
    address = "127.0.0.1:3"
    allow   = ["block", "info", "state", "exec", "push"]
  }
  server "a" {
    endpoint     = %q
    api_endpoint = %q
    labels       = { rack = "r1" }
  }
  server "b" {
    endpoint     = %q
    api_endpoint = %q
    labels       = { rack = "r2" }
  }
  server "gone" { endpoint = %q }
}
listener "ship" "range" {
  address  = "127.0.0.1:4"
  chain_id = %q
  %s
  server "old" {
    endpoint = %q
    role     = "frozen"
    range    = { begin = 2, end = %d }
  }
  server "live-1" { endpoint = %q }
  server "live-2" { endpoint = %q }
}
listener "evm" "main" {
  address = "127.0.0.1:5"
  %s
  health {
    interval = "50ms"
    readmit  = "0s"
  }
  server "e0" { endpoint = %q }
  server "e1" { endpoint = %q }
  server "e2" { endpoint = %q }
}
`, policy("pool"), ship(simulator.Options{}), api(), ship(simulator.Options{}), api(), gone.Addr(),
		hex.EncodeToString(id[:]), policy("range"), ship(simulator.Options{First: 2, End: seam}), seam,
		ship(simulator.Options{Snapshot: seam - 1}), ship(simulator.Options{Snapshot: seam - 1}), policy("evm"), nodes[0], nodes[1], nodes[2])
	h.start()
	return h
}

func (h *house) ship(chain *simulator.Chain, o simulator.Options) string {
	h.t.Helper()
	n, err := simulator.Start(chain, o)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(n.Close)
	return n.Addr()
}

// script writes one of the scripts.
func (h *house) script(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.folder, name+".lua"), []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// config is the configuration with the scripts as they are.
func (h *house) config() *config.Config {
	h.t.Helper()
	cfg, _, err := config.Parse("house.hcl", []byte(h.text))
	if err != nil {
		h.t.Fatal(err)
	}
	// Files have no port 0, but each port has an address of its own.
	cfg.Admin.Address = "127.0.0.1:0"
	return cfg
}

// anyPort opens free ports, whatever the configuration says.
type anyPort struct{ net.Dialer }

func (anyPort) Listen(string) (net.Listener, error) { return net.Listen("tcp", "127.0.0.1:0") }

func (h *house) start() {
	ctx, cancel := context.WithCancel(context.Background())
	up, ended := make(chan map[string]net.Addr, 1), make(chan error, 1)
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	cfg := h.config()
	go func() {
		ended <- gateway.Run(ctx, cfg, gateway.Options{Logger: log, Network: &anyPort{}, Reload: h.reload, Ready: func(a map[string]net.Addr) { up <- a }})
	}()
	h.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			h.t.Error(err)
		}
	})
	select {
	case h.addresses = <-up:
	case err := <-ended:
		ended <- err
		h.t.Fatal(err)
	}
	for path, says := range map[string]string{
		"/ready": "3 listener(s) ready, 8 upstream(s) online", "/ready?scope=history": "ready", "/ready/pool?scope=api": "2 chain API",
	} {
		h.eventually(path, func() bool { _, text := h.get(path); return strings.Contains(text, says) })
	}
}

func (h *house) eventually(what string, cond func() bool) {
	h.t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			h.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// get asks the admin port.
func (h *house) get(path string) (int, string) {
	h.t.Helper()
	resp, err := h.client.Get("http://" + h.addresses["admin"].String() + path)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// explain asks what would become of a request.
func (h *house) explain(listener, request string) choice.Answer {
	h.t.Helper()
	code, text := h.get("/api/v1/listeners/" + listener + "/explain?request=" + url.QueryEscape(request))
	var a choice.Answer
	if err := json.Unmarshal([]byte(text), &a); err != nil || code != http.StatusOK {
		h.t.Fatalf("%s %s: %d %s", listener, request, code, text)
	}
	return a
}

// post makes a request of a port and returns the answer.
func (h *house) post(port, path, body string) (int, string, error) {
	resp, err := h.client.Post("http://"+h.addresses[port].String()+path, "application/json", strings.NewReader(body))
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(text), err
}

// policyMetrics are the lines about scripts.
func (h *house) policyMetrics() (lines string) {
	h.t.Helper()
	_, text := h.get("/metrics")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "flotilla_policy_") {
			lines += line
		}
	}
	return lines
}
