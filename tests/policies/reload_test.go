package policies

import (
	"context"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"flotilla/gateway"
	"flotilla/gateway/config"
)

// watch has the house take what changes in its files.
func (h *house) watch() {
	h.t.Helper()
	path := filepath.Join(h.folder, "house.hcl")
	if err := os.WriteFile(path, []byte(h.text), 0o600); err != nil {
		h.t.Fatal(err)
	}
	cfg, _, err := config.Load(path)
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	watcher := gateway.NewWatcher(path, cfg, slog.New(slog.NewTextHandler(io.Discard, nil)))
	var running sync.WaitGroup
	running.Go(func() { watcher.Run(ctx, nil) })
	running.Go(func() {
		for {
			select {
			case r := <-watcher.Reloads():
				if r.Config != nil {
					// As config has it.
					r.Config.Admin.Address = "127.0.0.1:0"
				}
				select {
				case h.reload <- r:
				case <-ctx.Done():
				}
			case <-ctx.Done():
				return
			}
		}
	})
	h.t.Cleanup(func() { cancel(); running.Wait() })
}

// TestScriptsAreReloaded changes a module that the scripts of all listeners
// include, breaks the scripts, and mends them: each listener goes on with the
// last good ones.
func TestScriptsAreReloaded(t *testing.T) {
	questions := map[string][]string{
		"pool":  {`{"start_block": 5}`, `{"path": "/v1/chain/get_account", "body": {}}`},
		"range": {`{"start_block": 500, "traces": true}`}, "main": {`{"method": "eth_chainId"}`},
	}
	h := newHouse(t, "function score() return 1 end", "1s")
	h.watch()
	const script = `local first = include("first.lua")
function score(request, server) return first[server.name] and 1 or 0 end`
	// first waits until every request goes to one of these.
	first := func(what string, names ...string) {
		t.Helper()
		h.eventually(what, func() bool {
			for listener, requests := range questions {
				for _, q := range requests {
					if a := h.explain(listener, q); len(a.Order) == 0 || !strings.Contains(strings.Join(names, " "), a.Order[0]) {
						return false
					}
				}
			}
			return true
		})
	}
	put := func(text string) {
		for _, name := range []string{"pool", "range", "evm"} {
			h.script(name, text)
		}
	}
	h.script("first", `return {b = true, ["live-2"] = true, e1 = true}`)
	put(script)
	first("the scripts are in force", "b", "live-2", "e1")
	h.script("first", `return {a = true, ["live-1"] = true, e0 = true}`)
	first("the module is in force", "a", "live-1", "e0")
	for _, broken := range []string{"evm", "pool", "range"} {
		h.script(broken, "\nfunction score(")
		h.eventually("/health tells of "+broken, func() bool { _, text := h.get("/health"); return strings.Contains(text, broken+".lua:2") })
		first("the scripts before go on", "a", "live-1", "e0")
		h.requests(t)
		h.script(broken, script)
		h.eventually("it is mended", func() bool { _, text := h.get("/health"); return text == "ok\n" })
	}
	h.script("first", `return {b = true, ["live-2"] = true, e1 = true}`)
	first("the module is in force again", "b", "live-2", "e1")
}
