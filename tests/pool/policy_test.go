package pool

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
	"flotilla/policies"
	"flotilla/policies/lua"
	"flotilla/tests/scene"
)

// TestPolicyOfAConfiguration exchanges the policy while clients come: each goes
// where the policy of its time says, and those that are there stay.
func TestPolicyOfAConfiguration(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
		for range 3 {
			w.Node(simulator.Options{}, nil)
		}
		w.Config.Policy = &config.Policy{Name: "first", Settings: &policies.First{}}
		put, stop := w.startReloadable(whole(w.Config))
		defer stop()
		dial := func(account string) *simulator.Client {
			return w.Dial(simulator.ClientOptions{AckEvery: 1, Header: http.Header{"X-Account": {account}}})
		}
		links := func() (open [3]int) {
			for i, n := range w.Nodes {
				open[i], _ = n.Links()
				open[i]-- // the monitor's
			}
			return open
		}
		first := dial("a")
		w.Ask(first, scene.Everything(2, 1000, 5))
		for range 5 {
			dial("a")
		}
		if got := links(); got != [3]int{6, 0, 0} {
			t.Errorf("first: the links are %v", got)
		}
		sticky := with(w.Config, w.Config.Servers...)
		sticky.Policy = &config.Policy{Name: "sticky", Settings: &policies.Sticky{Header: "x-account"}}
		put(whole(sticky))
		before := links()
		for range 6 {
			dial("alice")
		}
		moved := 0
		for i, n := range links() {
			if n != before[i] {
				moved++
				if n-before[i] != 6 {
					t.Errorf("sticky: %d of one account's 6 are on node %d", n-before[i], i)
				}
			}
		}
		if moved != 1 {
			t.Errorf("sticky: an account is on %d nodes", moved)
		}
		robin := with(w.Config, w.Config.Servers...)
		robin.Policy = &config.Policy{Name: "round_robin", Settings: &policies.RoundRobin{}}
		put(whole(robin))
		before = links()
		for range 6 {
			dial("alice")
		}
		for i, n := range links() {
			if n-before[i] != 2 {
				t.Errorf("round robin: %d of 6 are on node %d", n-before[i], i)
			}
		}
		// The same block again goes on where it was.
		again := with(w.Config, w.Config.Servers...)
		again.Policy = &config.Policy{Name: "round_robin", Settings: &policies.RoundRobin{}}
		again.MaxConnections = 99
		dial("alice")
		put(whole(again))
		before = links()
		dial("alice")
		if got := links(); got[1] != before[1]+1 {
			t.Errorf("round robin starts again with a reload of something else: %v, then %v", before, got)
		}
		w.Chain.Advance(5)
		w.Reaches(first, 105)
		w.Clean(first)
	})
}

// TestScriptIsReloaded changes the script of a running gateway, breaks it and
// mends it: each client goes where the last good script says.
func TestScriptIsReloaded(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 100})
	nodes := []*simulator.Node{socketNode(t, chain, simulator.Options{}), socketNode(t, chain, simulator.Options{})}
	folder := t.TempDir()
	path, script, module := filepath.Join(folder, "flotilla.hcl"), filepath.Join(folder, "lua", "s.lua"), filepath.Join(folder, "lua", "best.lua")
	if err := os.Mkdir(filepath.Dir(script), 0o700); err != nil {
		t.Fatal(err)
	}
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put(module, `return "a"`)
	put(script, `local best = include("best.lua")
function score(r, s) return s.name == best and 1 or 0 end`)
	put(path, fmt.Sprintf(`admin { address = "127.0.0.1:%d" }
listener "ship" "files" {
  address = "127.0.0.1:%d"
  policy "lua" {
    script  = %q
    timeout = "1s"
  }
  server "a" { endpoint = %q }
  server "b" { endpoint = %q }
}
`, freePort(t), freePort(t), script, nodes[0].Addr(), nodes[1].Addr()))
	admin, client := runFile(t, path)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	// goes is the node that a client gets.
	goes := func() int {
		t.Helper()
		before, _ := nodes[0].Links()
		c, err := simulator.Dial(ctx, "ws://"+client+"/", simulator.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		if after, _ := nodes[0].Links(); after > before {
			return 0
		}
		return 1
	}
	eventually(t, "both nodes are online", func() bool { return strings.Contains(get(t, admin, "/ready"), "2 upstream(s) online") })
	for range 3 {
		if got := goes(); got != 0 {
			t.Error("a client is not where the script says")
		}
	}
	reloads := func(ok string) func() bool {
		return func() bool {
			return strings.Contains(get(t, admin, "/metrics"), "fleet_router_config_last_reload_successful "+ok)
		}
	}
	revision := func(n int) func() bool {
		return func() bool {
			return strings.Contains(get(t, admin, "/metrics"), fmt.Sprintf("flotilla_config_revision %d\n", n))
		}
	}
	put(module, `return "b"`)
	eventually(t, "the module is in force", revision(2))
	if got := goes(); got != 1 {
		t.Error("a client is not where the new module says")
	}
	put(script, "function score(")
	eventually(t, "the script counts as broken", reloads("0"))
	if text := get(t, admin, "/health"); !strings.Contains(text, "s.lua:1") {
		t.Errorf("/health says %q, without file and line of the script", text)
	}
	if got := goes(); got != 1 {
		t.Error("with a broken script the one before does not go on")
	}
	put(script, `function score(r, s) return s.name == "a" and 1 or 0 end`)
	eventually(t, "the script is mended", revision(3))
	if got := goes(); got != 0 {
		t.Error("a client is not where the mended script says")
	}
	if text := get(t, admin, "/api/v1/listeners/files/explain?request=%7B%7D"); !strings.Contains(text, "its order is a, b; a gets the request") {
		t.Errorf("explained, it is %s", text)
	}
}

// TestScriptMovesARequest has a script leave out the small node for readers of
// old blocks: a session that is on it moves when it asks for them, and stays
// for recent ones (S9).
func TestScriptMovesARequest(t *testing.T) {
	inBubble(t, simulator.ChainOptions{Head: 500}, func(t *testing.T, w *world) {
		small := w.Node(simulator.Options{}, func(s *config.Server) { s.Labels = map[string]string{"size": "small"} })
		big := w.Node(simulator.Options{}, func(s *config.Server) { s.Priority = 1 })
		p := &lua.Policy{Script: "s.lua", Timeout: "1s"}
		if err := p.Load(func(string) (string, error) {
			return `function score(r, s) if not (s.labels.size == "small" and r.start_block < 100) then return -s.priority end end`, nil
		}); err != nil {
			t.Fatal(err)
		}
		w.Config.Policy = &config.Policy{Name: lua.Name, Settings: p}
		defer w.Start()()
		for _, c := range []struct {
			start      uint32
			small, big int
		}{{450, 1, 0}, {2, 0, 1}} {
			client := w.Dial(simulator.ClientOptions{AckEvery: 1})
			if open, _ := small.Links(); open != 2 {
				t.Errorf("a client that has asked nothing is not on the preferred node, which has %d links", open)
			}
			w.Ask(client, scene.Everything(c.start, 1000, 5))
			w.Reaches(client, 500)
			w.Clean(client)
			onSmall, _ := small.Links()
			onBig, _ := big.Links()
			if onSmall-1 != c.small || onBig-1 != c.big {
				t.Errorf("from block %d: %d links on the small node and %d on the big one", c.start, onSmall-1, onBig-1)
			}
			client.Close()
			synctest.Wait()
		}
	})
}
