package config

import (
	"errors"
	"strings"
	"testing"
)

// mark shows where in a text a problem is expected; it is taken out.
const mark = "«"

// jsonFields are a small valid fleet-router file.
var jsonFields = []string{
	`"listen_address": "127.0.0.1"`,
	`"listen_port": 17000`,
	`"upstream_reconnect_ms": 3000`,
	`"upstream_monitoring_ms": 5000`,
	`"upstream_status_ms": 5000`,
	`"chain_id": "` + someChain + `"`,
	`"servers": [` + oneServer + `]`,
}

const (
	someChain = "aca376f206b8fc25a6ed44dbdc66547c36c6c33e3a119ffbeaef943642f0e906"
	oneServer = `{"name": "a", "endpoint": "127.0.0.1:18080", "enabled": true}`
)

// jsonWith is the valid file with fields replaced, added, or, when only a name
// is given, left out. Each field has a line of its own.
func jsonWith(changes ...string) string {
	fields := append([]string(nil), jsonFields...)
	for _, change := range changes {
		name, value, _ := strings.Cut(change, ":")
		at := len(fields)
		for i, f := range fields {
			if strings.HasPrefix(f, strings.ReplaceAll(name, mark, "")+":") {
				at = i
			}
		}
		switch {
		case value == "" && at < len(fields):
			fields = append(fields[:at], fields[at+1:]...)
		case at < len(fields):
			fields[at] = change
		default:
			fields = append(fields, change)
		}
	}
	return "{\n" + strings.Join(fields, ",\n") + "\n}\n"
}

// many is a file with listeners.
func many(listeners string, changes ...string) string {
	return jsonWith(append([]string{`"listen_port"`, `"chain_id"`, `"servers"`, `"listeners": ` + listeners}, changes...)...)
}

func listener(name, port, more string) string {
	return `{"name": "` + name + `", "listen_port": ` + port + `, "chain_id": "` + someChain + `", "servers": [` + oneServer + `]` + more + `}`
}

// server is a JSON server b with more fields.
func server(more string) string {
	return `{"name": "b", "endpoint": "127.0.0.1:18081", "enabled": true` + more + `}`
}

// unmark takes the mark out and returns its line and column.
func unmark(t *testing.T, marked string) (text string, line, column int) {
	t.Helper()
	before, after, found := strings.Cut(marked, mark)
	if !found {
		t.Fatalf("the case has no mark: %s", marked)
	}
	line = strings.Count(before, "\n") + 1
	return before + after, line, len([]rune(before[strings.LastIndex(before, "\n")+1:])) + 1
}

// expectProblem parses a marked text and wants one problem, at the mark, whose
// message has all the words.
func expectProblem(t *testing.T, file, marked string, words ...string) {
	t.Helper()
	text, line, column := unmark(t, marked)
	_, _, err := Parse(file, []byte(text))
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v, want an InvalidError for\n%s", err, text)
	}
	if len(invalid.Problems) != 1 {
		t.Fatalf("want one problem, got %v", err)
	}
	expectAt(t, invalid.Problems[0], file, line, column, words)
	if !strings.Contains(err.Error(), invalid.Problems[0].Message) {
		t.Errorf("the error lacks the message: %v", err)
	}
}

func expectAt(t *testing.T, p Problem, file string, line, column int, words []string) {
	t.Helper()
	if p.File != file || p.Line != line || p.Column != column {
		t.Errorf("problem at %s:%d:%d, want %s:%d:%d: %s", p.File, p.Line, p.Column, file, line, column, p.Message)
	}
	for _, word := range words {
		if !strings.Contains(p.Message+" "+p.Hint, word) {
			t.Errorf("the message lacks %q: %s", word, p)
		}
	}
}

// expectWarning parses a marked text and wants it to be valid, with one
// warning at the mark.
func expectWarning(t *testing.T, file, marked string, words ...string) {
	t.Helper()
	text, line, column := unmark(t, marked)
	_, warnings, err := Parse(file, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 1 {
		t.Fatalf("want one warning, got %v", warnings)
	}
	expectAt(t, warnings[0], file, line, column, words)
}

type rule struct {
	name, text string
	words      []string
}

func words(list ...string) []string { return list }

// jsonRules are files that have to be refused, with one problem each.
var jsonRules = []rule{
	// Syntax.
	{"comment", "{\n  «// no\n}", words("not JSON")},
	{"trailing comma", "{\"a\": 1,«}", words("not JSON")},
	{"byte order mark", "«\ufeff{}", words("not JSON", "byte order mark")},
	{"behind the brace", jsonWith() + "«x", words("not JSON")},
	{"cut short", "{ \"listen_port\": «", words("not JSON")},
	{"not UTF-8", "{\"a\": \"«\xff\"}", words("UTF-8")},
	{"no object", "«[1]", words("a list", "JSON object")},

	// Types.
	{"text for number", jsonWith(`"upstream_status_ms": «"5000"`), words("upstream_status_ms", `"5000"`, "whole number of milliseconds")},
	{"fraction", jsonWith(`"upstream_status_ms": «5000.0`), words("upstream_status_ms", "5000.0")},
	{"exponent", jsonWith(`"max_message_bytes": «1e6`), words("max_message_bytes", "1e6", "bytes")},
	{"negative", jsonWith(`"idle_timeout_ms": «-1`), words("idle_timeout_ms", "-1")},
	{"above u64", jsonWith(`"idle_timeout_ms": «18446744073709551616`), words("idle_timeout_ms")},
	{"above u32", jsonWith(`"live_lag_blocks": «4294967296`), words("live_lag_blocks", "4294967296")},
	{"number for text", jsonWith(`"listen_address": «5`), words("listen_address", "5", "a text")},
	{"number for flag", jsonWith(`"require_chain_id": «1`), words("require_chain_id", "true or false")},
	{"object for list", jsonWith(`"servers": «{}`), words("servers", "an object", "a list of objects")},
	{"list for object", jsonWith(`"block_failure_quarantine": «[2]`), words("block_failure_quarantine", "a list")},
	{"list for range", jsonWith(`"servers": [` + server(`, "role": "frozen", "range": «[1, 10]`) + `]`), words(`server "b"`, "range", "a list", "an object")},
	{"text for server", jsonWith(`"servers": [` + oneServer + `, «"b"]`), words("servers[1]", `"b"`)},
	{"null where none belongs", jsonWith(`"max_connections": «null`), words("max_connections", "null")},
	{"null weight", jsonWith(`"servers": [` + server(`, "weight": «null`) + `]`), words("weight", "null")},
	{"duplicate key", jsonWith(`"idle_timeout_ms": 1, «"idle_timeout_ms": 2`), words("idle_timeout_ms", "twice")},
	{"alias and name", jsonWith(`"servers": [`+server(`, "api_endpoint": "h:1", «"http_endpoint": "h:2"`)+`]`, `"chain_api": {"listen_port": 18888}`), words("http_endpoint", "twice")},

	// Top level.
	{"listen_port 0", jsonWith(`"listen_port": «0`), words("listen_port", "1 to 65535")},
	{"listen_port 65536", jsonWith(`"listen_port": «65536`), words("listen_port", "65536", "65535")},
	{"no listen_port", "«" + jsonWith(`"listen_port"`), words("listen_port", "missing")},
	{"blank listen_address", jsonWith(`"listen_address": «" "`), words("listen_address", "blank")},
	{"no listen_address", "«" + jsonWith(`"listen_address"`), words("listen_address", "blank")},
	{"port in listen_address", jsonWith(`"listen_address": «"0.0.0.0:17000"`), words("listen_address", "0.0.0.0:17000")},
	{"reconnect 0", jsonWith(`"upstream_reconnect_ms": «0`), words("upstream_reconnect_ms", "from 1 up")},
	{"monitoring 0", jsonWith(`"upstream_monitoring_ms": «0`), words("upstream_monitoring_ms", "from 1 up")},
	{"status 0", jsonWith(`"upstream_status_ms": «0`), words("upstream_status_ms", "from 1 up")},
	{"no status", "«" + jsonWith(`"upstream_status_ms"`), words("upstream_status_ms", "missing")},
	{"max_connections 0", jsonWith(`"max_connections": «0`), words("max_connections", "1 to 1000000")},
	{"max_connections too big", jsonWith(`"max_connections": «1000001`), words("max_connections", "1 to 1000000")},
	{"max_message_bytes 0", jsonWith(`"max_message_bytes": «0`), words("max_message_bytes", "from 1 up")},
	{"max_client_message_bytes 0", jsonWith(`"max_client_message_bytes": «0`), words("max_client_message_bytes", "from 1 up")},
	{"stall 999", jsonWith(`"upstream_stall_timeout_ms": «999`), words("upstream_stall_timeout_ms", "0 or from 1000 up")},
	{"metrics_port 0", jsonWith(`"metrics_port": «0`), words("metrics_port", "1 to 65535")},
	{"metrics clash", jsonWith(`"metrics_port": «17000`), words("metrics_port", "17000", "the listener")},
	{"metrics clash on all interfaces", jsonWith(`"metrics_port": «17000`, `"metrics_address": "0.0.0.0"`), words("metrics_port", "clashes")},
	{"bad metrics_address", jsonWith(`"metrics_port": 9090`, `"metrics_address": «"a b"`), words("metrics_address", "a b")},
	{"short chain_id", jsonWith(`"chain_id": «"aca376"`), words("chain_id", "aca376", "64 hex digits")},
	{"chain_id with 0x", jsonWith(`"chain_id": «"0x` + someChain[2:] + `"`), words("chain_id")},
	{"require_chain_id alone", jsonWith(`"chain_id"`, `"require_chain_id": «true`), words("require_chain_id", "chain_id")},
	{"unknown topology", jsonWith(`"topology": «"Pool"`), words("topology", `"pool"`)},

	// Quarantine.
	{"strikes 0", jsonWith(`"block_failure_quarantine": {"strikes": «0}`), words("block_failure_quarantine.strikes")},
	{"window 0", jsonWith(`"block_failure_quarantine": {"window_secs": «0}`), words("block_failure_quarantine.window_secs", "seconds from 1 up")},
	{"ttl 0", jsonWith(`"block_failure_quarantine": {"ttl_secs": «0}`), words("block_failure_quarantine.ttl_secs")},
	{"quarantine range 0", jsonWith(`"block_failure_quarantine": {"range": «0}`), words("block_failure_quarantine.range")},

	// Servers.
	{"no servers", jsonWith(`"servers": «[]`), words("servers", "empty")},
	{"servers missing", "«" + jsonWith(`"servers"`), words("servers", "missing")},
	{"none enabled", jsonWith(`"servers": «[{"name": "a", "endpoint": "h:1", "enabled": false}]`), words("servers", "enabled")},
	{"no name", jsonWith(`"servers": [«{"endpoint": "h:1", "enabled": true}]`), words("servers[0]: name", "missing")},
	{"no enabled", jsonWith(`"servers": [` + oneServer + `, «{"name": "b", "endpoint": "h:1"}]`), words(`server "b": enabled`, "missing")},
	{"blank endpoint", jsonWith(`"servers": [{"name": "a", "endpoint": «"", "enabled": true}]`), words(`server "a": endpoint`, "blank")},
	{"no endpoint", jsonWith(`"servers": [«{"name": "a", "enabled": true}]`), words(`server "a": endpoint`, "blank")},
	{"frozen without endpoint", jsonWith(`"servers": [`+oneServer+`, «{"name": "z", "enabled": true, "role": "frozen", "range": {"begin": 1, "end": 5}, "api_endpoint": "h:1"}]`,
		`"chain_api": {"listen_port": 18888}`), words(`server "z": endpoint`, "frozen")},
	{"unknown role", jsonWith(`"servers": [` + server(`, "role": «"cold"`) + `]`), words(`server "b": role`, `"live"`, `"frozen"`)},
	{"weight 0", jsonWith(`"servers": [` + server(`, "weight": «0`) + `]`), words(`server "b": weight`, "from 1 up")},
	{"weight 0 of a disabled one", jsonWith(`"servers": [` + oneServer + `, {"name": "b", "endpoint": "h:1", "enabled": false, "weight": «0}]`), words(`server "b": weight`)},
	{"max_sessions 0", jsonWith(`"servers": [` + server(`, "max_sessions": «0`) + `]`), words(`server "b": max_sessions`, "from 1 up")},
	{"range on live", jsonWith(`"servers": [` + server(`, "range": «{"begin": 1, "end": 5}`) + `]`), words(`server "b": range`, "live", "frozen")},
	{"range from 0", jsonWith(`"servers": [` + server(`, "role": "frozen", "range": «{"begin": 0, "end": 5}`) + `]`), words(`server "b": range`, "begin 0")},
	{"empty range", jsonWith(`"servers": [` + server(`, "role": "frozen", "range": «{"begin": 5, "end": 5}`) + `]`), words(`server "b": range`, "end 5")},
	{"half a range", jsonWith(`"servers": [` + server(`, "role": "frozen", "range": «{"begin": 5}`) + `]`), words(`server "b": range.end`, "missing")},
	{"range of a disabled one", jsonWith(`"servers": [` + oneServer + `, {"name": "b", "endpoint": "h:1", "enabled": false, "range": «{"begin": 1, "end": 2}}]`), words(`server "b": range`)},
	{"duplicate endpoint", jsonWith(`"servers": [` + oneServer + `, {"name": "b", "endpoint": «"127.0.0.1:18080", "enabled": true}]`), words(`server "b": endpoint`, `server "a"`)},
	{"duplicate in another spelling", jsonWith(`"servers": [` + oneServer + `, {"name": "b", "endpoint": «"ws://127.0.0.1:18080/", "enabled": true}]`), words(`server "b": endpoint`, `"ws://127.0.0.1:18080/"`, `"127.0.0.1:18080"`)},
	{"duplicate IPv6", jsonWith(`"servers": [{"name": "a", "endpoint": "[::1]:1", "enabled": true}, {"name": "b", "endpoint": «"[0:0::1]:1", "enabled": true}]`), words("endpoint")},
	{"https endpoint", jsonWith(`"servers": [{"name": "a", "endpoint": «"https://h:1", "enabled": true}]`), words(`server "a": endpoint`, "https", "ws://host:port")},
	{"bad port", jsonWith(`"servers": [{"name": "a", "endpoint": «"h:99999", "enabled": true}]`), words(`server "a": endpoint`, "99999", "65535")},

	// Topology and stitching.
	{"frozen in a pool", jsonWith(`"topology": "pool"`, `"servers": [`+oneServer+`, `+server(`, "role": «"frozen", "range": {"begin": 1, "end": 5}`)+`]`), words(`server "b": role`, "pool", "stitched")},
	{"stitched without chain_id", "«" + jsonWith(`"chain_id"`, `"topology": "stitched"`), words("chain_id", "stitched")},
	{"frozen without chain_id", "«" + jsonWith(`"chain_id"`, `"servers": [`+oneServer+`, `+server(`, "role": "frozen", "range": {"begin": 1, "end": 5}`)+`]`), words("chain_id", "frozen")},
	{"gap_wait 0", jsonWith(`"topology": "stitched"`, `"stitching": {"gap_wait_ms": «0}`), words("stitching.gap_wait_ms", "1 to 3600000")},
	{"gap_wait too long", jsonWith(`"topology": "stitched"`, `"stitching": {"gap_wait_ms": «3600001}`), words("stitching.gap_wait_ms", "1 to 3600000")},
	{"no abi_file", jsonWith(`"topology": "stitched"`, `"stitching": {"abi_file": «"/nonexistent/abi"}`), words("stitching.abi_file", "/nonexistent/abi", "no such file")},
	{"abi_file is no ABI", jsonWith(`"topology": "stitched"`, `"stitching": {"abi_file": «"rules_test.go"}`), words("stitching.abi_file", "rules_test.go", "ABI")},
	{"unknown abi_mismatch", jsonWith(`"topology": "stitched"`, `"stitching": {"abi_mismatch": «"no"}`), words("stitching.abi_mismatch", `"warn"`)},
	{"unknown history_preference", jsonWith(`"topology": "stitched"`, `"stitching": {"history_preference": «"live"}`), words("stitching.history_preference", `"any"`)},

	// Dashboard.
	{"dashboard without a port", jsonWith(`"dashboard": {"enabled": «true}`), words("dashboard.enabled", "metrics_port")},
	{"short token", jsonWith(`"dashboard": {"control_token": «"short"}`), words("dashboard.control_token", "16")},
	{"two tokens", jsonWith(`"dashboard": {"control_token": "0123456789abcdef", "control_token_file": «"/f"}`), words("dashboard.control_token_file", "control_token")},

	// Listeners.
	{"listeners with servers", many(`[`+listener("x", "17000", "")+`]`, `"servers": «[`+oneServer+`]`), words("servers", "listeners")},
	{"listeners with listen_port", many(`[`+listener("x", "17000", "")+`]`, `"listen_port": «17001`), words("listen_port", "listeners")},
	{"listeners with chain_id", many(`[`+listener("x", "17000", "")+`]`, `"chain_id": «"`+someChain+`"`), words("chain_id", "listeners")},
	{"listeners with quarantine", many(`[`+listener("x", "17000", "")+`]`, `"block_failure_quarantine": «{}`), words("block_failure_quarantine", "listeners")},
	{"listeners with require_chain_id", many(`[`+listener("x", "17000", "")+`]`, `"require_chain_id": «true`), words("require_chain_id", "listeners")},
	{"listeners with topology", many(`[`+listener("x", "17000", "")+`]`, `"topology": «"pool"`), words("topology", "listeners")},
	{"listeners with stitching", many(`[`+listener("x", "17000", "")+`]`, `"stitching": «{}`), words("stitching", "listeners")},
	{"wrong address for all listeners", many(`[`+listener("x", "17000", "")+`, `+listener("y", "17001", "")+`]`, `"listen_address": «"a b"`), words("listen_address", "a b")},
	{"listener without servers key", many(`[«{"name": "x", "listen_port": 17000, "chain_id": "` + someChain + `"}]`), words(`listener "x": servers`, "missing")},
	{"listener with no servers", many(`[{"name": "x", "listen_port": 17000, "chain_id": "` + someChain + `", "servers": «[]}]`), words(`listener "x": servers`, "empty")},
	{"nameless listener", many(`[{"name": «" ", "listen_port": 17000, "chain_id": "` + someChain + `", "servers": [` + oneServer + `]}]`), words("listeners[0]: name", "blank")},
	{"name with a slash", many(`[{"name": «"a/b", "listen_port": 17000, "chain_id": "` + someChain + `", "servers": [` + oneServer + `]}]`), words("name", `"a/b"`, "slash")},
	{"name with a space", many(`[{"name": «"a b", "listen_port": 17000, "chain_id": "` + someChain + `", "servers": [` + oneServer + `]}]`), words("name", `"a b"`, "white space")},
	{"name twice", many(`[` + listener("x", "17000", "") + `, {"name": «"x", "listen_port": 17001, "chain_id": "` + someChain + `", "servers": [` + oneServer + `]}]`), words(`listener "x": name`, "another listener")},
	{"listener on port 0", many(`[` + listener("x", "«0", "") + `]`), words(`listener "x": listen_port`, "1 to 65535")},
	{"blank address of a listener", many(`[` + listener("x", "17000", `, "listen_address": «" "`) + `]`), words(`listener "x": listen_address`, "blank")},
	{"listener cap 0", many(`[` + listener("x", "17000", `, "max_connections": «0`) + `]`), words(`listener "x": max_connections`, "1 to 1000000")},
	{"listeners on one port", many(`[` + listener("x", "17000", "") + `, ` + listener("y", "«17000", "") + `]`), words(`listener "y": listen_port`, `listener "x"`, "17000")},
	{"listener and wildcard", many(`[` + listener("x", "17000", "") + `, ` + listener("y", "«17000", `, "listen_address": "::"`) + `]`), words(`listener "y": listen_port`, "clashes")},
	{"listener on the metrics port", many(`[`+listener("x", "17000", "")+`]`, `"metrics_port": «17000`), words("metrics_port", "17000", `listener "x"`)},
	{"require_chain_id of a listener", many(`[{"name": "x", "listen_port": 17000, "require_chain_id": «true, "servers": [` + oneServer + `]}]`), words(`listener "x": require_chain_id`)},

	// TLS.
	{"no key_file", jsonWith(`"tls": «{"cert_file": "c"}`), words("tls.key_file", "missing")},
	{"blank cert_file", jsonWith(`"tls": {"cert_file": «"", "key_file": "k"}`), words("tls.cert_file", "blank")},
	{"null tls of a listener's entry", many(`[` + listener("x", "17000", `, "tls": «5`) + `]`), words(`listener "x": tls`, "an object")},

	// Chain API.
	{"api without a server", jsonWith(`"chain_api": «{"listen_port": 18888}`), words("chain_api", "api_endpoint")},
	{"https api_endpoint", jsonWith(`"servers": [` + server(`, "api_endpoint": «"https://h:1"`) + `]`), words(`server "b": api_endpoint`, "https")},
	{"api_endpoint with a path", jsonWith(`"servers": [` + server(`, "api_endpoint": «"http://h/x"`) + `]`), words(`server "b": api_endpoint`)},
	{"api_endpoint without a port", jsonWith(`"servers": [` + server(`, "api_endpoint": «"h"`) + `]`), words(`server "b": api_endpoint`, "port")},
	{"api port clash", apiWith(`"listen_port": «17000`), words("chain_api.listen_port", "17000", "the listener")},
	{"api port 0", apiWith(`"listen_port": «0`), words("chain_api.listen_port", "1 to 65535")},
	{"api address blank", apiWith(`"listen_port": 18888, "listen_address": «""`), words("chain_api.listen_address", "blank")},
	{"allow empty", apiWith(`"listen_port": 18888, "allow": «[]`), words("chain_api.allow", "empty")},
	{"allow repeats", apiWith(`"listen_port": 18888, "allow": «["info", "info"]`), words("chain_api.allow", "info")},
	{"allow unknown", apiWith(`"listen_port": 18888, "allow": «["all"]`), words("chain_api.allow", `"push"`)},
	{"max_body_bytes", apiWith(`"listen_port": 18888, "max_body_bytes": «1023`), words("chain_api.max_body_bytes", "1024 to 67108864")},
	{"max_response_bytes", apiWith(`"listen_port": 18888, "max_response_bytes": «1`), words("chain_api.max_response_bytes", "0 or from 65536 up")},
	{"max_in_flight", apiWith(`"listen_port": 18888, "max_in_flight": «0`), words("chain_api.max_in_flight", "1 to 1000000")},
	{"max_attempts", apiWith(`"listen_port": 18888, "max_attempts": «9`), words("chain_api.max_attempts", "1 to 8")},
	{"probe_ms", apiWith(`"listen_port": 18888, "probe_ms": «99`), words("chain_api.probe_ms", "100 to 60000")},
	{"upstream_timeout_ms", apiWith(`"listen_port": 18888, "upstream_timeout_ms": «99`), words("chain_api.upstream_timeout_ms", "from 100 up")},
	{"request_deadline_ms", apiWith(`"listen_port": 18888, "request_deadline_ms": «9000`), words("chain_api.request_deadline_ms", "upstream_timeout")},
	{"upstream_queue_ms", apiWith(`"listen_port": 18888, "upstream_queue_ms": «40000`), words("chain_api.upstream_queue_ms", "request_deadline")},
	{"push_servers without push", apiWith(`"listen_port": 18888, "push_servers": «["b"]`), words("chain_api.push_servers", "push")},
	{"push_servers unknown", apiWith(`"listen_port": 18888, "allow": ["push"], "push_servers": «["z"]`), words("chain_api.push_servers", `"z"`)},
	{"push_servers repeated", apiWith(`"listen_port": 18888, "allow": ["push"], "push_servers": «["b", "b"]`), words("chain_api.push_servers", `"b"`)},
	{"cors origin", apiWith(`"listen_port": 18888, "cors": {"allow_origin": «"a\nb"}`), words("chain_api.cors.allow_origin", "header")},
	{"cors without origin", apiWith(`"listen_port": 18888, "cors": «{}`), words("chain_api.cors.allow_origin", "missing")},
}

// apiWith is a file with a chain API of those fields.
func apiWith(fields string) string {
	return jsonWith(`"servers": [`+server(`, "api_endpoint": "h:8888"`)+`]`, `"chain_api": {`+fields+`}`)
}

func TestJSONRules(t *testing.T) {
	for _, r := range jsonRules {
		t.Run(r.name, func(t *testing.T) { expectProblem(t, "config.json", r.text, r.words...) })
	}
}

// jsonWarnings are files that are valid with one warning.
var jsonWarnings = []rule{
	{"unknown key", jsonWith(`«"max_conections": 5`), words("max_conections", "did you mean max_connections?")},
	{"key in another case", jsonWith(`«"Listen_Port": 5`), words("Listen_Port", "did you mean listen_port?")},
	{"unknown key without a likeness", jsonWith(`«"comment": "x"`), words("comment", "no effect")},
	{"unknown key of a server", jsonWith(`"servers": [` + server(`, «"wieght": 2`) + `]`), words(`server "b": wieght`, "weight")},
	{"timing of a listener", many(`[` + listener("x", "17000", `, «"idle_timeout_ms": 5`) + `]`), words(`listener "x": idle_timeout_ms`)},
	{"chain_id not pinned", "«" + jsonWith(`"chain_id"`), words("chain_id", "pin")},
	{"chain_id null", "«" + jsonWith(`"chain_id": null`), words("chain_id", "pin")},
	{"chain_id of a listener", many(`[«{"name": "x", "listen_port": 17000, "servers": [` + oneServer + `]}]`), words(`listener "x": chain_id`)},
	{"no port", jsonWith(`"servers": [{"name": "a", "endpoint": «"wss://h", "enabled": true}]`), words(`server "a": endpoint`, "443")},
	{"fragment", jsonWith(`"servers": [{"name": "a", "endpoint": «"h:1#f", "enabled": true}]`), words(`server "a": endpoint`, "#")},
	{"user name", jsonWith(`"servers": [{"name": "a", "endpoint": «"ws://me:secret@h:1", "enabled": true}]`), words(`server "a": endpoint`, "user name")},
	{"name twice", jsonWith(`"servers": [` + oneServer + `, {"name": «"a", "endpoint": "h:1", "enabled": true}]`), words(`server "a": name`, "another server")},
	{"blank name", jsonWith(`"servers": [{"name": «"", "endpoint": "h:1", "enabled": true}]`), words("servers[0]: name", "blank")},
	{"stitching without effect", jsonWith(`"stitching": «{}`), words("stitching", "pool")},
	{"nothing live", jsonWith(`"servers": «[` + server(`, "role": "frozen", "range": {"begin": 1, "end": 5}`) + `]`), words("servers", "live")},
	{"archive without a range", jsonWith(`"servers": [` + oneServer + `, «` + server(`, "role": "frozen"`) + `]`), words(`server "b": range`)},
	{"hole", jsonWith(`"servers": «[` + oneServer + `, ` + server(`, "role": "frozen", "range": {"begin": 1, "end": 5}`) +
		`, {"name": "c", "endpoint": "h:1", "enabled": true, "role": "frozen", "range": {"begin": 7, "end": 9}}]`), words("servers", "[5, 7)")},
	{"api_endpoint alone", jsonWith(`"servers": [` + server(`, "api_endpoint": «"h:1"`) + `]`), words(`server "b": api_endpoint`, "chain_api")},
	{"http_endpoint alone", jsonWith(`"servers": [` + server(`, "http_endpoint": «"http://h/"`) + `]`), words(`server "b": api_endpoint`, "chain_api")},
	{"chain API on all interfaces", jsonWith(`"servers": [`+server(`, "api_endpoint": "h:8888"`)+`]`, `"chain_api": «{"listen_port": 18888, "listen_address": "0.0.0.0"}`),
		words("chain_api", "all interfaces")},
	{"chain API with push", apiWith(`"listen_port": 18888, "allow": «["push"]`), words("chain_api.allow", "relayed")},
	{"chain API without a live server", jsonWith(`"servers": [`+oneServer+`, `+server(`, "role": "frozen", "range": {"begin": 1, "end": 5}, "api_endpoint": "h:8888"`)+`]`,
		`"chain_api": «{"listen_port": 18888}`), words("chain_api", "no live server")},
	{"chain API without an archive", jsonWith(`"servers": [`+server(`, "api_endpoint": "h:8888"`)+
		`, «{"name": "c", "endpoint": "h:1", "enabled": true, "role": "frozen", "range": {"begin": 1, "end": 5}}]`, `"chain_api": {"listen_port": 18888}`), words(`server "c"`, "left out of the chain API")},
	{"dashboard", jsonWith(`"metrics_port": 9090`, `"dashboard": «{"enabled": true}`), words("dashboard", "does not serve")},
	{"long interval", jsonWith(`"upstream_status_ms": «5000000`), words("upstream_status_ms", "unusually long")},
}

func TestJSONWarnings(t *testing.T) {
	for _, r := range jsonWarnings {
		t.Run(r.name, func(t *testing.T) { expectWarning(t, "config.json", r.text, r.words...) })
	}
}

func TestHTTPOnlyServerIsWarnedOf(t *testing.T) {
	text := jsonWith(`"servers": [{"name": "a", "enabled": true, "api_endpoint": "h:8888"}]`)
	_, warnings, err := Parse("config.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 2 || !strings.Contains(warnings[0].Message, "servers has no enabled entry with an endpoint") {
		t.Fatalf("got %v", warnings)
	}
}

func TestAllProblemsAreReported(t *testing.T) {
	text := jsonWith(`"listen_port": 0`, `"upstream_status_ms": 0`, `"chain_id": "x"`, `"servers": []`)
	_, _, err := Parse("config.json", []byte(text))
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v", err)
	}
	var fields []string
	for _, p := range invalid.Problems {
		fields = append(fields, strings.Fields(p.Message)[0])
	}
	if got := strings.Join(fields, " "); got != "listen_port upstream_status_ms chain_id servers" {
		t.Errorf("got the fields %s, want all four in file order", got)
	}
}
