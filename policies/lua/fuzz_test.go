package lua_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"flotilla/policies"
	"flotilla/policies/lua"
)

// FuzzScript gives the policy any source: it loads or it does not, and then a
// request gets some of its servers, each once, soon enough.
func FuzzScript(f *testing.F) {
	for _, seed := range []string{
		returning("return servers"), returning("return {}"), returning("while true do end"), "function score(r, s) return s.sessions end",
		returning("local s = 'x' while true do s = s .. s end"), "select = nil x = (('a'):rep(100)):find('(a*)*b')", "goto a ::a::",
		"local t = setmetatable({}, {__index = function(t, k) return t[k] end}) function select(r, s) return t.x end",
		returning("table.sort(servers, function(a, b) return a.lag > b.lag end) state.x = (state.x or 0) + 1 return servers"),
		returning("return sort_by(servers, 'lag', true)"), returning("return sort_by(servers, function(s) return s.labels.rack end)"),
		"include('s.lua')", "function select(...) return unpack({...}, 2) end", "return function() end", "\xff\x00", "x = 0x", "--[==[", `x = "\`,
		returning("return string.format('%5.2f', 'x'):gsub('.', {a = 1})"), returning("error(setmetatable({}, {__tostring = error}))"),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, source string) {
		p := &lua.Policy{Script: "s.lua", Timeout: "10ms"}
		started := time.Now()
		if p.Load(files{"s.lua": source}.read) != nil {
			return
		}
		if p.Provision(policies.Env{Log: slog.New(slog.DiscardHandler)}) != nil {
			return
		}
		for range 3 {
			servers := fleet(5)
			all := slices.Clone(servers)
			kept := p.Order(request(), servers, 5)
			seen := map[*policies.Server]bool{}
			for _, s := range kept {
				if seen[s] || !slices.Contains(all, s) {
					t.Fatalf("the order is %s", names(kept))
				}
				seen[s] = true
			}
			if len(kept) == 0 {
				t.Fatal("no server is left")
			}
		}
		// Far beyond all limits together, even on a machine that is busy.
		if took := time.Since(started); took > 30*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

// FuzzReturn has select return a list of anything: it counts when it is a list
// of different servers of the call, and else the built-in order does.
func FuzzReturn(f *testing.F) {
	values := []string{"servers[1]", "servers[2]", "servers[3]", "servers[4]", "nil", "false", "1", "'a'", "{}", "servers", "request",
		"servers[1].labels", "state", "print", "{name = 'a'}", "setmetatable({}, {__index = servers[1]})"}
	for _, seed := range [][]byte{{}, {0}, {3, 2, 1, 0}, {0, 0}, {0, 4, 1}, {4}, {8}, {15}, {0, 1, 2, 3, 4}, {4, 4, 4}} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list []byte) {
		if len(list) > 50 {
			return
		}
		var items []string
		for _, b := range list {
			items = append(items, values[int(b)%len(values)])
		}
		// What the list is for Lua: a nil at its end is no item.
		last := len(items)
		for last > 0 && items[last-1] == "nil" {
			last--
		}
		want := ""
		for _, item := range items[:last] {
			i := slices.Index(values[:4], item)
			if name := string(rune('a' + max(i, 0))); i >= 0 && !strings.Contains(want, name) {
				want += name
				continue
			}
			want = ""
			break
		}
		if want == "" {
			want = "abcd"
		}
		p := load(t, returning("return {"+strings.Join(items, ", ")+"}"), nil)
		if got := order(p, 4); got != want {
			t.Errorf("{%s} gives %s, want %s: %s", strings.Join(items, ", "), got, want, p.Report().LastFailure)
		}
	})
}
