package lua_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/policies"
	"flotilla/policies/lua"
)

// files is a folder in memory.
type files map[string]string

func (f files) read(path string) (string, error) {
	if text, ok := f[path]; ok {
		return text, nil
	}
	return "", fmt.Errorf("%s cannot be read: no such file", path)
}

// run is a subtest in a bubble, where the clock stands still while a script runs:
// no limit of time makes it fail on a busy machine.
func run(t *testing.T, name string, test func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// load is a policy with this script.
func load(t testing.TB, script string, log *slog.Logger) *lua.Policy {
	t.Helper()
	return loadFiles(t, files{"s.lua": script}, log)
}

func loadFiles(t testing.TB, f files, log *slog.Logger) *lua.Policy {
	t.Helper()
	p := &lua.Policy{Script: "s.lua", Timeout: "1s"}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	if err := p.Load(f.read); err != nil {
		t.Fatal(err)
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	if err := p.Provision(policies.Env{Listener: "eos", Log: log}); err != nil {
		t.Fatal(err)
	}
	return p
}

// fleet is servers a, b, c, ... with 0, 1, 2, ... sessions: the built-in order
// is that of their names.
func fleet(n int) (list []*policies.Server) {
	for i := range n {
		rack := []string{"r2", "r1"}[i%2]
		list = append(list, &policies.Server{
			ID: i, Name: string(rune('a' + i)), Endpoint: fmt.Sprint("10.0.0.", i, ":8080"), Role: "live", Weight: 1, Run: policies.NoBlock, Online: true,
			Labels: map[string]string{"rack": rack}, Sessions: int64(i), Head: uint64(1000 - i), Lag: uint64(i), Latency: time.Duration(i) * time.Millisecond,
			Traces: policies.Range{Begin: 1, End: 1001},
		})
	}
	return list
}

func names(list []*policies.Server) string {
	var b strings.Builder
	for _, s := range list {
		b.WriteString(s.Name)
	}
	return b.String()
}

// request is one of SHiP from block 5 on.
func request() *policies.Request {
	return &policies.Request{Protocol: "ship", Listener: "eos", Session: 7, Client: "10.1.2.3", Start: 5, End: 100, Traces: true,
		Headers: map[string]string{"x-account": "alice"}}
}

func order(p *lua.Policy, n int) string {
	f := fleet(n)
	return names(p.Order(request(), f, len(f)))
}

// failures are those of a policy that are not 0.
func failures(p *lua.Policy) string {
	var out []string
	report := p.Report()
	for _, kind := range lua.Kinds {
		if n := report.Failures[string(kind)]; n > 0 {
			out = append(out, fmt.Sprint(kind, ":", n))
		}
	}
	return strings.Join(out, " ")
}

// returning is a script whose select has this body.
func returning(body string) string { return "function select(request, servers)\n" + body + "\nend" }

func TestOrder(t *testing.T) {
	for _, c := range []struct{ name, script, want string }{
		{"as they are", returning("return servers"), "abcd"},
		{"the design's example", `
function select(request, servers)
  local picked = {}
  for _, s in ipairs(servers) do
    if not (s.labels.size == "small" and request.start_block < 1000000) then picked[#picked + 1] = s end
  end
  table.sort(picked, function(a, b) return a.labels.rack == "r1" and b.labels.rack ~= "r1" end)
  return picked
end`, "bdac"},
		{"reversed", returning("local out = {} for i = #servers, 1, -1 do out[#out+1] = servers[i] end return out"), "dcba"},
		{"some dropped", returning("return {servers[3], servers[1]}"), "ca"},
		{"in place", returning("table.remove(servers, 1) return servers"), "bcd"},
		{"a score", "function score(r, s) return s.sessions end", "dcba"},
		{"a score that drops", "function score(r, s) if s.name ~= 'b' then return -s.sessions end end", "acd"},
		{"equal scores keep the built-in order", "function score(r, s) return s.name == 'c' and 2 or 1 end", "cabd"},
		{"score, then select", "function score(r, s) return s.sessions end\n" + returning("table.remove(servers, 1) return servers"), "cba"},
		{"select of Lua itself", "local n = select('#', 1, 2)\nfunction score(r, s) return n * s.sessions end", "dcba"},
		{"every field of a server", returning(`
			local s = servers[2]
			assert(s.name == "b" and s.endpoint == "10.0.0.1:8080" and s.role == "live" and s.labels.rack == "r1" and s.labels.none == nil)
			assert(s.priority == 0 and s.weight == 1 and s.max_sessions == 0 and s.head == 999 and s.lib == 0 and s.lag == 1)
			assert(s.traces_begin == 1 and s.traces_end == 1001 and s.deltas_begin == 0 and s.deltas_end == 0 and s.finality_begin == 0 and s.finality_end == 0)
			assert(s.run == 4294967295 and s.sessions == 1 and s.in_flight == 0 and s.latency == 0.001 and s.errors == 0)
			assert(s.online and not s.stale and not s.quarantined)
			return {s}`), "b"},
		{"every field of a request", returning(`
			local r = request
			assert(r.protocol == "ship" and r.listener == "eos" and r.session == 7 and r.client == "10.1.2.3" and r.headers["x-account"] == "alice")
			assert(r.start_block == 5 and r.end_block == 100 and r.block == 5 and r.traces and not r.deltas and not r.finality and not r.irreversible)
			assert(r.class == nil and r.path == nil and #r.methods == 0)
			return {servers[2]}`), "b"},
		{"pairs over a server", returning(`
			local n = 0
			for k, v in pairs(servers[2]) do n = n + 1 assert(servers[2][k] == v) end
			for k, v in pairs(servers[2].labels) do assert(k == "rack" and v == "r1") n = n + 1 end
			assert(next(servers[2]) ~= nil and n == 26, n)
			return {servers[2]}`), "b"},
		{"texts", returning(`
			assert(("x"):rep(3) == "xxx" and ("abc"):upper() == "ABC" and #"abc" == 3)
			assert(string.format("%5.1f|%-4s|%03d|%x|%q|%%|%c", 3.14159, "a", 7, 255, 'a"b', 65) == '  3.1|a   |007|ff|"a\\"b"|%|A')
			assert(table.concat({1, "b", 3}, ", ") == "1, b, 3" and "a" .. 1 .. "b" == "a1b")
			assert(tostring(12) == "12" and tonumber("0x10") == 16 and math.floor(2.5) == 2)
			assert(math.random() < 1 and math.random(3) <= 3 and math.random(5, 5) == 5)
			return {servers[2]}`), "b"},
		{"sort_by a field", returning("return sort_by(servers, 'sessions', true)"), "dcba"},
		{"sort_by a rare field", returning("return sort_by(servers, 'la' .. 'tency', true)"), "dcba"},
		{"sort_by a text", returning("local t = {servers[3], servers[1], servers[2]} sort_by(t, 'name') return t"), "abc"},
		{"sort_by a boolean, equal ones as they were", returning("return sort_by(servers, function(s) return s.labels.rack == 'r1' end, true)"), "bdac"},
		{"sort_by, and some have no key", returning("return sort_by(servers, function(s) if s.sessions > 1 then return -s.sessions end end)"), "dcab"},
		{"sort_by of no servers", returning("local t = sort_by({{n = 2}, {n = 1}, {}}, 'n') assert(t[1].n == 1 and t[3].n == nil and #sort_by({}, 'n') == 0) return {servers[2]}"), "b"},
		{"hash", returning(`
			assert(hash("alice") == hash("alice") and hash("alice") ~= hash("bob") and hash("") >= 0 and hash("x") < 2^32 and hash("x") % 1 == 0)
			return {servers[2]}`), "b"},
		{"errors that are caught", returning(`
			local ok, why = pcall(error, "x", 0) assert(not ok and why == "x", why)
			local ok, why = pcall(function() return servers[1].nothing end) assert(not ok and why:find("no field"), why)
			return {servers[2]}`), "b"},
		{"a field of its own", returning(`
			local set = pcall(function() servers[1].name = "z" end)
			local new = pcall(function() servers[1].mine = 1 end)
			local label = pcall(function() servers[1].labels.rack = "z" end)
			local asked = pcall(function() request.client = "z" end)
			local hidden = pcall(table.insert, servers[1], 1)
			assert(not (set or new or label or asked or hidden) and servers[1].name == "a")
			assert(getmetatable(servers[1]) == false and not pcall(setmetatable, servers[1], {}))
			return {servers[2]}`), "b"},
	} {
		run(t, c.name, func(t *testing.T) {
			p := load(t, c.script, nil)
			for range 3 {
				if got := order(p, 4); got != c.want {
					t.Errorf("the order is %s, want %s: %s", got, c.want, p.Report().LastFailure)
				}
			}
			if got := failures(p); got != "" {
				t.Errorf("the failures are %s: %s", got, p.Report().LastFailure)
			}
		})
	}
}

// What the chain API and EVM say of a request.
func TestFieldsOfOtherProtocols(t *testing.T) {
	for _, c := range []struct {
		name    string
		request policies.Request
		body    string
	}{
		{"chain API, a block", policies.Request{Protocol: "chain_api", Class: "block", Path: "/v1/chain/get_block", Start: 7, End: 8},
			`assert(r.protocol == "chain_api" and r.class == "block" and r.path == "/v1/chain/get_block" and r.block == 7 and r.start_block == 7 and r.end_block == 8)`},
		{"chain API, state", policies.Request{Protocol: "chain_api", Class: "state", Path: "/v1/chain/get_account", Start: policies.NoBlock, End: policies.NoBlock},
			`assert(r.class == "state" and r.block == nil and r.start_block == 4294967295 and #r.methods == 0)`},
		{"EVM, a batch", policies.Request{Protocol: "evm", Methods: []string{"eth_call", "eth_getLogs"}, Start: 20, End: 31},
			`local out = {} for i, m in ipairs(r.methods) do out[i] = m end
			assert(#r.methods == 2 and table.concat(out, " ") == "eth_call eth_getLogs" and r.block == 20 and r.end_block == 31 and r.class == nil and r.path == nil)`},
		{"EVM, a block beyond 32 bits", policies.Request{Protocol: "evm", Methods: []string{"eth_call"}, Start: 1 << 40, End: 1<<40 + 1},
			`assert(r.block == 2^40 and r.end_block == 2^40 + 1)`},
	} {
		run(t, c.name, func(t *testing.T) {
			p := load(t, returning("local r = request "+c.body+" return {servers[2]}"), nil)
			f := fleet(2)
			if got := names(p.Order(&c.request, f, 2)); got != "b" {
				t.Errorf("the order is %s: %s", got, p.Report().LastFailure)
			}
		})
	}
}

// Whatever a script does, the request gets the built-in order, and what was
// wrong is counted.
func TestBadScripts(t *testing.T) {
	const builtin = "abcd"
	for _, c := range []struct{ name, body, kind, says string }{
		{"an endless loop", "while true do end", "instructions", "instructions"},
		{"an endless loop that catches errors", "while true do pcall(function() while true do end end) end", "instructions", "instructions"},
		{"an endless loop in a handler", "xpcall(function() while true do end end, function() while true do end end)", "instructions", "instructions"},
		{"goto", "::top:: goto top", "instructions", "instructions"},
		{"deep recursion", "local function f() return 1 + f() end return f()", "error", "stack overflow"},
		{"endless tail calls", "local function f() return f() end return f()", "instructions", ""},
		{"recursion through pcall", "local function f() pcall(f) pcall(f) end f() return 1", "", ""},
		{"recursion through a metatable", "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k] end return t.x", "error", ""},
		{"recursion through tostring", "local t = setmetatable({}, {__tostring = function(t) return tostring(t) end}) return tostring(t)", "error", ""},
		{"recursion through sort", "local function f() table.sort({3, 2, 1}, function(a, b) f() return a < b end) end f()", "error", ""},

		{"a text that doubles", "local s = 'x' while true do s = s .. s end", "error", "65536 bytes"},
		{"a long text again and again", "local s = ('x'):rep(60000) while true do local t = s .. 'y' end", "memory", "bytes"},
		{"a long text, caught", "while true do pcall(string.rep, 'x', 60000) end", "memory", "bytes"},
		{"rep", "return ('x'):rep(1e9)", "error", "65536 bytes"},
		{"rep of a long text", "return ('x'):rep(60000):rep(60000)", "error", "65536 bytes"},
		{"rep of nothing", "return (''):rep(1e18)", "result", "string"},
		{"a width", "return string.format('%999999d', 1)", "error", "two digits"},
		{"a precision", "return string.format('%.999999f', 1)", "error", "two digits"},
		{"a width from an argument", "return string.format('%*d', 99999999, 1)", "error", "not known"},
		{"many widths", "return string.format(('%99d'):rep(16000), unpack({}, 1, 1000))", "error", ""},
		{"a verb of Go", "return string.format('%v', servers)", "error", "not known"},
		{"a format that ends", "return string.format('%')", "error", "ends"},
		{"many long arguments", "local s = ('x'):rep(60000) return string.format(('%s'):rep(100), s, s, s, s)", "error", "bytes"},
		{"table.concat", "local t = {} for i = 1, 100 do t[i] = ('x'):rep(1000) end return table.concat(t)", "error", "65536 bytes"},
		{"a separator", "local t = {} for i = 1, 1000 do t[i] = 1 end return table.concat(t, ('x'):rep(1000))", "error", "65536 bytes"},
		{"table.concat without end", "return table.concat({}, '', 1, 1e15)", "error", "nil"},
		{"gsub that grows", "return ('x'):rep(60000):gsub('x', ('y'):rep(100))", "error", "65536 bytes"},
		{"gsub that grows by captures", "return ('x'):rep(6000):gsub('(x*)', ('%1'):rep(100))", "error", "65536 bytes"},
		{"a pattern that takes long", "return (('a'):rep(3000)):find(('.-'):rep(20) .. 'b')", "instructions", "instructions"},
		{"another", "return (('a'):rep(200)):match('(a*)*' .. ('(a*)'):rep(20) .. 'b')", "", ""},
		{"a pattern, caught", "while true do pcall(string.find, ('a'):rep(3000), ('.-'):rep(20) .. 'b') end", "instructions", ""},
		{"a pattern with many sets", "return (('a'):rep(60000)):find('[' .. ('b'):rep(60000) .. ']')", "instructions", ""},
		{"a balanced pattern", "return (('('):rep(60000)):find('%b()')", "instructions", ""},
		{"a pattern that nests", "return ('a'):rep(500):find(('(a'):rep(31) .. ('a?'):rep(400))", "error", "complex"},
		{"too many captures", "return ('a'):find(('()'):rep(40))", "error", "captures"},
		{"a broken pattern", "return ('a'):find('[a')", "error", "]"},
		{"a broken class", "return ('a'):find('%')", "error", "ends with"},
		{"unpack", "return unpack({}, 1, 1e8)", "error", ""},
		{"many values", "return string.byte(('x'):rep(60000), 1, -1)", "error", ""},
		{"a large index", "local t = {} t[60000000] = 1 t[1] = 1 return t", "result", ""},
		{"large tables", "local all = {} for i = 1, 200 do local t = {} t[8191] = 1 all[i % 100] = t end", "result", ""},
		{"table.insert far out", "local t = {} table.insert(t, 5e7, 1) return t", "result", ""},
		{"coroutines", "local all = {} for i = 1, 1e6 do all[i] = coroutine.create(function() end) end", "error", "create"},

		{"nothing", "", "result", "a nil value"},
		{"nil", "return nil", "result", "a nil value"},
		{"a number", "return 3", "result", "a number value"},
		{"a text", "return 'a'", "result", "a string value"},
		{"a function", "return print", "result", "a function value"},
		{"one server", "return servers[1]", "result", "a single server"},
		{"the request", "return request", "result", "the request"},
		{"the table state", "return state", "result", ""},
		{"a list of numbers", "return {1, 2}", "result", "a number value at place 1"},
		{"a hole", "return {servers[1], nil, servers[2]}", "result", "a nil value at place 2"},
		{"foreign tables", "return {{name = 'a'}}", "result", "no server at place 1"},
		{"the request among servers", "return {servers[1], request}", "result", "no server at place 2"},
		{"labels among servers", "return {servers[1].labels}", "result", "no server at place 1"},
		{"names for places", "return {a = servers[1]}", "result", "without a list"},
		{"a server twice", "return {servers[1], servers[2], servers[1]}", "result", "\"a\" twice"},
		{"more than there are", "return {servers[1], servers[2], servers[3], servers[4], servers[1]}", "result", "5 servers"},
		{"none", "return {}", "empty", ""},

		{"an error", "error('broken')", "error", "s.lua:2: broken"},
		{"an error that is a table", "error({})", "error", "no text"},
		{"an error that is nothing", "error()", "error", ""},
		{"a long error", "error(('x'):rep(60000))", "error", "..."},
		{"arithmetic on nil", "return servers[1].labels.none + 1", "error", "s.lua:2"},
		{"concatenating nil", "return 'x' .. servers[1].labels.none", "error", "s.lua:2: attempt to concatenate a nil value"},
		{"a misspelt field", "return servers[1].lable.rack", "error", `no field "lable"`},
		{"an unknown function", "return servers[1]:kick()", "error", "kick"},
		{"sort_by of a server", "return sort_by(servers[1], 'name')", "error", "cannot be changed"},
		{"sort_by a field that is not there", "return sort_by(servers, 'lable')", "error", `no field "lable"`},
		{"sort_by tables", "return sort_by(servers, 'labels')", "error", "a key is a table value"},
		{"sort_by numbers and texts", "return sort_by(servers, function(s) return s.name == 'b' and 1 or 'x' end)", "error", "one key is a string value and another a number value"},
		{"sort_by a number", "return sort_by(servers, 5)", "error", "name of a field"},
		{"sort_by of numbers", "return sort_by({1, 2}, 'n')", "error", "which has no fields"},
		{"sort_by a function that fails", "return sort_by(servers, function(s) return s.none end)", "error", "s.lua:2"},
		{"sort_by without end", "return sort_by(servers, function(s) while true do end end)", "instructions", ""},
		{"sort_by of a long list again and again", "local t = {} for i = 1, 8000 do t[i] = {n = -i} end while true do sort_by(t, 'n') end", "", ""},
		{"recursion through sort_by", "local function f() sort_by({1}, f) end f()", "error", ""},
		{"hash of nothing", "return hash()", "error", "string expected"},
		{"log at no level", "log('loud', 'x')", "error", "loud"},
		{"a counter that falls", "counter('x', -1)", "error", "only rises"},
		{"a counter without a name", "counter('')", "error", "name"},
		{"a counter that is no number", "counter('x', 0/0)", "error", "only rises"},
		{"a table in state", "state.x = {}", "error", "cannot be kept"},
		{"a long text in state", "state.x = ('x'):rep(60000) state.y = ('x'):rep(60000)", "error", "no room"},
		{"many names in state", "for i = 1, 2000 do state['n' .. i] = i end", "error", "no room"},
		{"include in a call", "include('x.lua')", "error", "top of a script"},
		{"math.random of nothing", "math.random(0)", "error", "empty"},
	} {
		run(t, c.name, func(t *testing.T) {
			p := load(t, returning(c.body), nil)
			if got := order(p, 4); got != builtin {
				t.Errorf("the order is %s, want %s", got, builtin)
			}
			report := p.Report()
			if c.kind != "" && failures(p) != c.kind+":1" {
				t.Errorf("the failures are %q, want one of %s: %s", failures(p), c.kind, report.LastFailure)
			}
			if !strings.Contains(report.LastFailure, c.says) {
				t.Errorf("the failure is %q, which lacks %q", report.LastFailure, c.says)
			}
			if len(report.LastFailure) > 310 {
				t.Errorf("the failure has %d bytes", len(report.LastFailure))
			}
			// The next call is none the worse for it.
			if got := order(p, 2); got != "ab" {
				t.Errorf("then the order is %s", got)
			}
		})
	}
}

// What would reach beyond the script is not there, however it is looked for.
func TestSandbox(t *testing.T) {
	for _, name := range []string{"io", "os", "debug", "package", "coroutine", "channel", "require", "module", "load", "loadstring", "loadfile", "dofile",
		"collectgarbage", "getfenv", "setfenv", "newproxy", "rawset", "_printregs", "string.dump", "string.gfind", "math.randomseed", "_GOPHER_LUA_VERSION",
		"_G.io", "_G.os", "_G._LOADED", "getmetatable('').__index", "(''):dump", "string.__index", "_G.string.dump", "math.__index"} {
		run(t, name, func(t *testing.T) {
			if strings.HasPrefix(name, "('')") {
				p := load(t, returning("return "+name+"()"), nil)
				order(p, 2)
				if failures(p) != "error:1" {
					t.Error("it is there")
				}
				return
			}
			p := load(t, returning("local ok, v = pcall(function() return "+name+" end) assert(not ok or v == nil) return {servers[2]}"), nil)
			if got := order(p, 2); got != "b" {
				t.Errorf("it is there: %s", p.Report().LastFailure)
			}
		})
	}
}

// All that there is, so that nothing comes in with a newer interpreter.
func TestEverythingThatIsThere(t *testing.T) {
	var log bytes.Buffer
	p := load(t, returning(`
		local all = {}
		for k, v in pairs(_G) do
			all[#all+1] = k
			if type(v) == "table" and k ~= "_G" and k ~= "state" then for n in pairs(v) do all[#all+1] = k .. "." .. n end end
		end
		table.sort(all)
		log("info", table.concat(all, " "):sub(1, 490))
		log("info", table.concat(all, " "):sub(491))
		return servers`), slog.New(slog.NewTextHandler(&log, nil)))
	order(p, 1)
	const want = "(concat) _G _VERSION assert counter error getmetatable hash include ipairs log math math.abs math.acos math.asin math.atan math.atan2 math.ceil math.cos math.cosh math.deg math.exp math.floor math.fmod math.frexp math.huge math.ldexp math.log math.log10 math.max math.min math.mod math.modf math.pi math.pow math.rad math.random math.sin math.sinh math.sqrt math.tan math.tanh next now pairs pcall print rawequal rawget select setmetatable sort_by state string string.byte string.char string.find string.format string.gmatch string.gsub string.len string.lower string.match string.rep string.reverse string.sub string.upper table table.concat table.getn table.insert table.maxn table.remove table.sort tonumber tostring type unpack xpcall"
	got := ""
	for line := range strings.Lines(log.String()) {
		_, text, _ := strings.Cut(line, `msg="`)
		text, _, _ = strings.Cut(text, `"`)
		got += text
	}
	if got != want {
		t.Errorf("there are\n%s\nwant\n%s", got, want)
	}
}

// What a script changes in its library stays in its state: the limits do not
// depend on it.
func TestChangedLibrary(t *testing.T) {
	p := load(t, `
_G["(concat)"] = nil
string.rep, table.concat, pcall = nil, nil, nil
getmetatable = nil
`+returning("return 'a' .. 'b'"), nil)
	if got := order(p, 2); got != "ab" || failures(p) != "error:1" {
		t.Errorf("the order is %s, the failures are %s", got, failures(p))
	}
}

// Time is a limit of its own, which a slow machine may reach before the
// instructions.
func TestTimeout(t *testing.T) {
	p := &lua.Policy{Script: "s.lua", Timeout: "100µs"}
	if err := p.Load(files{"s.lua": returning("while true do end")}.read); err != nil {
		t.Fatal(err)
	}
	if err := p.Provision(policies.Env{Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	if got := order(p, 2); got != "ab" || failures(p) != "time:1" {
		t.Errorf("the order is %s, the failures are %s", got, failures(p))
	}
}

func TestScriptsThatDoNotLoad(t *testing.T) {
	for _, c := range []struct {
		name  string
		files files
		says  string
	}{
		{"no file", files{}, "s.lua cannot be read"},
		{"no Lua", files{"s.lua": "function select(\n return"}, "s.lua:2"},
		{"no function", files{"s.lua": "x = 1"}, "neither select"},
		{"a select that is no function", files{"s.lua": "select = 3"}, "neither select"},
		{"an error", files{"s.lua": "\nerror('no')"}, "s.lua:2: no"},
		{"an endless loop", files{"s.lua": "while true do end"}, "instructions"},
		{"too long", files{"s.lua": strings.Repeat("-- x\n", 20000)}, "at most 65536"},
		{"too deep", files{"s.lua": "x = " + strings.Repeat("(", 30000) + "1" + strings.Repeat(")", 30000)}, "neither select"},
		{"too many values", files{"s.lua": "x = " + strings.Repeat("a..", 400) + "b"}, ""},
		{"a module that is not there", files{"s.lua": "include('x.lua')"}, "x.lua cannot be read"},
		{"a module outside", files{"s.lua": "include('../x.lua')"}, "in the folder of the script"},
		{"a module at the root", files{"s.lua": "include('/etc/x.lua')"}, "in the folder of the script"},
		{"a module of another kind", files{"s.lua": "include('/etc/passwd')"}, ".lua file"},
		{"a broken module", files{"s.lua": "include('x.lua')", "x.lua": "\n)"}, "x.lua:2"},
		{"modules in a circle", files{"s.lua": "include('x.lua')", "x.lua": "include('s.lua')"}, "include each other"},
		{"a module without end", files{"s.lua": "include('x.lua')", "x.lua": "while true do end"}, "instructions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &lua.Policy{Script: "s.lua"}
			err := p.Load(c.files.read)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("the error is %v, which lacks %q", err, c.says)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for _, c := range []struct {
		p    lua.Policy
		says string
	}{
		{lua.Policy{Script: "x"}, ""},
		{lua.Policy{Script: "x", Timeout: "5ms", HeaderNames: []string{"x-a"}}, ""},
		{lua.Policy{}, "script is empty"},
		{lua.Policy{Script: "x", Timeout: "2"}, "timeout"},
		{lua.Policy{Script: "x", Timeout: "2s"}, "timeout"},
		{lua.Policy{Script: "x", Timeout: "1µs"}, "timeout"},
		{lua.Policy{Script: "x", HeaderNames: []string{"a b"}}, "a b"},
		{lua.Policy{Script: "x", HeaderNames: []string{""}}, "empty"},
		{lua.Policy{Script: "x", HeaderNames: make([]string, 9)}, "at most 8"},
	} {
		err := c.p.Validate()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v, want %q", c.p, err, c.says)
		}
	}
}

func TestInclude(t *testing.T) {
	p := loadFiles(t, files{
		"s.lua":         "local racks = include('lib/racks.lua')\nassert(racks == include('lib/racks.lua'))\n" + returning("return racks.only(servers, 'r1')"),
		"lib/racks.lua": "local m = {}\nfunction m.only(list, rack) local out = {} for _, s in ipairs(list) do if s.labels.rack == rack then out[#out+1] = s end end return out end\nreturn m",
	}, nil)
	if got := order(p, 5); got != "bd" {
		t.Errorf("the order is %s: %s", got, p.Report().LastFailure)
	}
	if got := strings.Join(p.Files(), " "); got != "lib/racks.lua s.lua" {
		t.Errorf("the files are %s", got)
	}
}

// The table state is one for all states of a script; globals are not shared,
// and need not be.
func TestState(t *testing.T) {
	p := load(t, returning(`
		state.n = (state.n or 0) + 1
		state.gone = "x" state.gone = nil
		assert(state.gone == nil and next(state) == nil)
		return {servers[(state.n - 1) % 4 + 1]}`), nil)
	got := ""
	for range 6 {
		got += order(p, 4)
	}
	if got != "abcdab" {
		t.Errorf("the order is %s: %s", got, p.Report().LastFailure)
	}
}

// A dry call leaves nothing behind.
func TestDry(t *testing.T) {
	var log bytes.Buffer
	p := load(t, returning(`state.n = (state.n or 0) + 1 counter("calls") log("info", "called") if state.n == 3 then error("third") end return {servers[2]}`),
		slog.New(slog.NewTextHandler(&log, nil)))
	dry := request()
	dry.Dry = true
	for range 20 {
		if got := names(p.Order(dry, fleet(3), 3)); got != "b" {
			t.Fatalf("the order is %s", got)
		}
	}
	// Whoever asks is told instead, up to a bound.
	notes := strings.Join(dry.Notes, "\n")
	for _, says := range []string{"would set state.n", "would add 1 to the counter calls", "would log at level info: called"} {
		if !strings.Contains(notes, says) {
			t.Errorf("the notes lack %q: %s", says, notes)
		}
	}
	if len(dry.Notes) > 20 {
		t.Errorf("there are %d notes", len(dry.Notes))
	}
	report := p.Report()
	if report.Calls != 0 || len(report.Counters) != 0 || log.Len() != 0 {
		t.Errorf("there are %+v and %s", report, log.String())
	}
}

// A script that keeps failing is switched off; one that fails now and then is
// not. The reason is logged once a minute.
func TestSwitchingOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := load(t, returning("if state.fail then error('broken') end return {servers[2]}")+"\nfunction score(r, s) state.fail = r.client == 'bad' return 1 end",
			slog.New(slog.NewTextHandler(&log, nil)))
		ask := func(client string) string {
			r := request()
			r.Client = client
			f := fleet(2)
			return names(p.Order(r, f, 2))
		}
		for i := range 1000 {
			client := "good"
			if i%12 == 0 {
				client = "bad"
			}
			if got, want := ask(client), map[string]string{"good": "b", "bad": "ab"}[client]; got != want {
				t.Fatalf("call %d of a %s client gives %s", i, client, got)
			}
		}
		if r := p.Report(); r.Off || r.Calls != 1000 || r.Failures["error"] != 84 {
			t.Errorf("with a failure in twelve: %+v", r)
		}
		if n := strings.Count(log.String(), "has failed; the built-in"); n != 1 {
			t.Errorf("%d failures are logged", n)
		}
		if !strings.Contains(log.String(), "s.lua:2: broken") || !strings.Contains(log.String(), "stack traceback") {
			t.Errorf("the log lacks the line or the stack: %s", log.String())
		}
		time.Sleep(2 * time.Minute)
		for range 11 {
			ask("bad")
		}
		if r := p.Report(); !r.Off || r.LastFailure != "s.lua:2: broken" {
			t.Errorf("after ten in a row: %+v", r)
		}
		if got := ask("good"); got != "ab" {
			t.Errorf("switched off, it gives %s", got)
		}
		if n := strings.Count(log.String(), "switched off until its file changes"); n != 1 || !strings.Contains(log.String(), "failures_not_logged=83") {
			t.Errorf("switching off is logged %d times: %s", n, log.String())
		}
	})
}

// Lines of a script are few.
func TestLogIsLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		p := load(t, returning("for i = 1, 20 do log('warn', 'line') print('line', i) end return servers"), slog.New(slog.NewTextHandler(&log, nil)))
		lines := func() int { return strings.Count(log.String(), "line") - strings.Count(log.String(), "lines_left_out") }
		for range 5 {
			order(p, 1)
		}
		if got := lines(); got != 10 {
			t.Errorf("%d lines", got)
		}
		time.Sleep(13 * time.Second)
		order(p, 1)
		if got := lines(); got != 12 || !strings.Contains(log.String(), "lines_left_out=190") {
			t.Errorf("%d lines a little later: %s", got, log.String())
		}
	})
}

func TestCounters(t *testing.T) {
	p := load(t, returning("counter('calls') counter('blocks', 10) assert(counter('calls') >= 2) return servers"), nil)
	for range 3 {
		order(p, 2)
	}
	if got := p.Report().Counters; got["calls"] != 6 || got["blocks"] != 30 {
		t.Errorf("the counters are %v", got)
	}
	many := load(t, returning("for i = 1, 200 do counter('c' .. i) end"), nil)
	order(many, 2)
	if got := many.Report(); len(got.Counters) != 100 || got.Failures["error"] != 1 {
		t.Errorf("there are %d counters, failures %v", len(got.Counters), got.Failures)
	}
}

// A script that keeps more and more loses its state, not the process its
// memory.
func TestHoarding(t *testing.T) {
	for name, body := range map[string]string{
		"in a global":     "hoard = hoard or {} for i = 1, 2000 do hoard = {hoard, i} end return servers",
		"in an upvalue":   "for i = 1, 100 do kept[#kept+1] = ('x'):rep(30000) end return servers",
		"in large tables": "for i = 1, 4 do local t = {} t[8191] = 1 kept[#kept+1] = t end return servers",
	} {
		run(t, name, func(t *testing.T) {
			p := load(t, "local kept = {}\n"+returning(body), nil)
			for calls := 0; p.Report().Failures["memory"] == 0; calls++ {
				if calls == 70 {
					t.Fatalf("nothing was noticed: %s", failures(p))
				}
				order(p, 2)
			}
		})
	}
}

// Servers that were kept from an earlier call are none of this one.
func TestServersOfAnEarlierCall(t *testing.T) {
	p := load(t, "local kept\n"+returning("kept = kept or servers[3] return {kept}"), nil)
	if got := order(p, 3); got != "c" {
		t.Errorf("the first order is %s", got)
	}
	if got := order(p, 2); got != "ab" || failures(p) != "result:1" {
		t.Errorf("the second order is %s, the failures are %s", got, failures(p))
	}
	if got := order(p, 3); got != "c" {
		t.Errorf("the third order is %s", got)
	}
}

// A server whose configuration changes is shown as it is then, and what was
// computed is not kept for the next call.
func TestServersChange(t *testing.T) {
	p := load(t, "function score(r, s) return s.labels.rack == 'r1' and 100 or s.sessions end", nil)
	f := fleet(3)
	if got := names(p.Order(request(), f, 3)); got != "bca" {
		t.Errorf("the order is %s", got)
	}
	f = fleet(3)
	f[0].Sessions, f[1].Labels, f[1].Sessions = 9, map[string]string{"rack": "r3"}, 1
	if got := names(p.Order(request(), f, 3)); got != "acb" {
		t.Errorf("then the order is %s", got)
	}
}

// Many requests at once do not disturb each other.
func TestConcurrentCalls(t *testing.T) {
	synctest.Test(t, testConcurrentCalls)
}

func testConcurrentCalls(t *testing.T) {
	p := load(t, returning("local n = counter('calls') for i = 1, 100 do n = n + #servers end return {servers[tonumber(request.client)]}"), nil)
	var running sync.WaitGroup
	for g := range 8 {
		running.Go(func() {
			for i := range 200 {
				r := request()
				r.Client = fmt.Sprint(i%4 + 1)
				if got, want := names(p.Order(r, fleet(4), 1)), string(rune('a'+i%4)); got != want {
					t.Errorf("goroutine %d got %s, want %s: %s", g, got, want, p.Report().LastFailure)
					return
				}
			}
		})
	}
	running.Wait()
	if got := p.Report(); got.Calls != 1600 || got.Counters["calls"] != 1600 {
		t.Errorf("the report is %+v", got)
	}
}
