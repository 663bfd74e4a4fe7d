package pool

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
	"flotilla/tests/scene"
)

// TestFileThatIsBrokenAndMended runs the whole way from the file to the admin
// port: a bad file changes nothing and shows, and so does its repair, while a
// client streams on.
func TestFileThatIsBrokenAndMended(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 100})
	node := socketNode(t, chain, simulator.Options{})
	path := filepath.Join(t.TempDir(), "flotilla.hcl")
	good := fmt.Sprintf(`admin { address = "127.0.0.1:%d" }
listener "ship" "files" {
  address = "127.0.0.1:%d"
  server "a" { endpoint = %q }
}
`, freePort(t), freePort(t), node.Addr())
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(good)
	admin, client := runFile(t, path)

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := simulator.Dial(ctx, "ws://"+client+"/", simulator.ClientOptions{AckEvery: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ask(scene.Everything(2, 1000, 5)); err != nil {
		t.Fatal(err)
	}
	const metric = "fleet_router_config_last_reload_successful "
	eventually(t, "the configuration counts as good", func() bool { return strings.Contains(get(t, admin, "/metrics"), metric+"1") })
	if body := get(t, admin, "/health"); body != "ok\n" {
		t.Errorf("/health says %q", body)
	}

	put(good + "listener {")
	eventually(t, "the configuration counts as bad", func() bool { return strings.Contains(get(t, admin, "/metrics"), metric+"0") })
	if body := get(t, admin, "/health"); !strings.HasPrefix(body, "ok\n") || !strings.Contains(body, "flotilla.hcl:6") {
		t.Errorf("/health says %q; it is up, and the file has an error in line 6", body)
	}
	chain.Advance(10)
	if err := c.Wait(ctx, func(r simulator.Report) bool { return r.Last.Num == 110 }); err != nil {
		t.Fatal(err)
	}

	put(good)
	eventually(t, "the configuration counts as good again", func() bool { return strings.Contains(get(t, admin, "/metrics"), metric+"1") })
	if err := c.Report().Err(); err != nil {
		t.Error(err)
	}
}

// runFile runs a gateway on a file that it watches, and returns its addresses.
func runFile(t *testing.T, path string) (admin, client string) {
	t.Helper()
	cfg, _, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(scene.LogOutput(), nil))
	ctx, cancel := context.WithCancel(t.Context())
	watcher := gateway.NewWatcher(path, cfg, log)
	up := make(chan map[string]net.Addr, 1)
	var running sync.WaitGroup
	running.Go(func() { watcher.Run(ctx, nil) })
	running.Go(func() {
		if err := gateway.Run(ctx, cfg, gateway.Options{Logger: log, Reload: watcher.Reloads(), Ready: func(a map[string]net.Addr) { up <- a }}); err != nil {
			t.Error(err)
			close(up)
		}
	})
	t.Cleanup(func() { cancel(); running.Wait() })
	addresses := <-up
	if addresses == nil {
		t.FailNow()
	}
	return addresses["admin"].String(), addresses["files"].String()
}

func get(t *testing.T, address, path string) string {
	t.Helper()
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + address + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// freePort is a port that was free a moment ago. A file cannot ask for any.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
