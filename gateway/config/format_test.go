package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// sameAs compares apart from what FormatHCL does not keep.
func sameAs(t interface{ Fatalf(string, ...any) }, text []byte, cfg *Config) {
	again, _, err := Parse("again.hcl", text)
	if err != nil {
		t.Fatalf("the HCL is not valid: %v\n%s", err, text)
	}
	want := *cfg
	want.Path, want.Single = again.Path, false
	if !reflect.DeepEqual(again, &want) {
		a, _ := json.MarshalIndent(want, "", " ")
		b, _ := json.MarshalIndent(again, "", " ")
		t.Fatalf("not the same configuration.\nwritten: %s\nread: %s\n%s", a, b, text)
	}
}

func TestFormatHCL(t *testing.T) {
	cfg, _, err := Parse("config.json", []byte(jsonWith(`"metrics_port": 9090`, `"metrics_address": "127.0.0.1"`, `"upstream_reconnect_ms": 1500`, `"block_failure_quarantine": {}`,
		`"servers": [`+oneServer+`, {"name": "z \"${x}\"", "endpoint": "h:1", "enabled": false, "role": "frozen", "range": {"begin": 2, "end": 5}}]`)))
	if err != nil {
		t.Fatal(err)
	}
	want := `# The listener had no name of its own. Metrics of several listeners carry listener="default".
admin {
  address = "127.0.0.1:9090"
}

listener "ship" "default" {
  address            = "127.0.0.1:17000"
  upstream_reconnect = "1.5s"
  hold_wait          = "0s"
  chain_id           = "` + someChain + `"

  quarantine {
  }

  server "a" {
    endpoint = "127.0.0.1:18080"
  }

  server "z \"$${x}\"" {
    endpoint = "h:1"
    enabled  = false
    role     = "frozen"
    range = {
      begin = 2
      end   = 5
    }
  }
}
`
	got := FormatHCL(cfg)
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	sameAs(t, got, cfg)
}

func TestFormatHCLSharesSettings(t *testing.T) {
	cfg, _, err := Parse("config.json", []byte(many(`[`+listener("x", "17000", `, "max_connections": 5`)+`, `+listener("y", "17001", "")+`]`, `"idle_timeout_ms": 7000`)))
	if err != nil {
		t.Fatal(err)
	}
	got := string(FormatHCL(cfg))
	if strings.Count(got, "idle_timeout") != 1 || strings.Count(got, "max_connections") != 1 || !strings.Contains(got, "defaults {") {
		t.Errorf("got\n%s", got)
	}
	sameAs(t, []byte(got), cfg)
}

func TestSample(t *testing.T) {
	cfg, warnings, err := Parse("flotilla.hcl", Sample())
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0].Message, "chain_id") {
		t.Errorf("the warnings are %v", warnings)
	}
	if cfg.Admin.Address != "127.0.0.1:9090" || len(cfg.Listeners[0].Servers) != 2 {
		t.Errorf("got %+v", cfg)
	}
	sameAs(t, FormatHCL(cfg), cfg)
	// What is commented out has to be right, too.
	full := strings.NewReplacer("# chain_id", "chain_id", "# server", "server", "  #   ", "    ", "  # }", "  }").Replace(string(Sample()))
	cfg, warnings, err = Parse("flotilla.hcl", []byte(full))
	if err != nil || len(warnings) > 0 || len(cfg.Listeners[0].Servers) != 3 || !cfg.Listeners[0].Stitched() {
		t.Errorf("with everything in use: %v %v", warnings, err)
	}
}

// TestConvertedFilesAreEqual writes any valid JSON configuration as HCL.
func TestConvertedFilesAreEqual(t *testing.T) {
	folder := t.TempDir()
	cert, key := writePair(t, folder, "one")
	abi := writeFile(t, folder, "abi", `{"version": "eosio::abi/1.1"}`)
	rapid.Check(t, func(t *rapid.T) {
		g := generator{t: t, tls: map[string]any{"cert_file": cert, "key_file": key}, abi: abi}
		text, err := json.Marshal(g.file())
		if err != nil {
			t.Fatal(err)
		}
		cfg, _, err := Parse("config.json", text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		sameAs(t, FormatHCL(cfg), cfg)
	})
}

// generator makes valid fleet-router files.
type generator struct {
	t   *rapid.T
	tls map[string]any
	abi string
	n   int
}

func (g *generator) maybe() bool { return rapid.Bool().Draw(g.t, "maybe") }

// next is a number that no other call gives, for names and ports.
func (g *generator) next() int { g.n++; return g.n }

func (g *generator) number(from, to uint64) uint64 {
	return rapid.Uint64Range(from, to).Draw(g.t, "number")
}

// put gives a field one time in two.
func (g *generator) put(to map[string]any, name string, value any) {
	if g.maybe() {
		to[name] = value
	}
}

func (g *generator) file() map[string]any {
	f := map[string]any{
		"upstream_reconnect_ms": g.number(1, 600_000), "upstream_monitoring_ms": g.number(1, 600_000), "upstream_status_ms": g.number(1, 1<<63),
	}
	for _, name := range []string{"handshake_timeout_ms", "idle_timeout_ms", "upstream_liveness_timeout_ms", "shutdown_grace_ms", "hold_wait_ms", "slow_client_timeout_ms", "client_buffer_bytes"} {
		g.put(f, name, g.number(0, 1<<40))
	}
	g.put(f, "upstream_stall_timeout_ms", g.number(1000, 1<<20))
	g.put(f, "live_lag_blocks", g.number(0, 1<<32-1))
	g.put(f, "max_message_bytes", g.number(1, 1<<30))
	g.put(f, "max_client_message_bytes", g.number(1, 1<<20)*1024)
	g.put(f, "max_connections", g.number(1, 1_000_000))
	g.put(f, "tls", g.tls)
	g.put(f, "metrics_port", 9000)
	g.put(f, "metrics_address", "127.0.0.1")
	if f["metrics_port"] != nil && g.maybe() {
		f["dashboard"] = map[string]any{"enabled": g.maybe(), "control_token": "0123456789abcdef$", "allowed_hosts": []string{"a.test"}}
	}
	if g.maybe() {
		f["listen_address"], f["listen_port"] = "::1", 17000
		g.pool(f)
		return f
	}
	var listeners []any
	for range rapid.IntRange(1, 3).Draw(g.t, "listeners") {
		l := map[string]any{"name": fmt.Sprint(g.text(), g.next()), "listen_port": 10000 + g.next()}
		g.put(l, "listen_address", "10.0.0.1")
		g.put(l, "max_connections", g.number(1, 1_000_000))
		g.put(l, "tls", g.tls)
		g.pool(l)
		listeners = append(listeners, l)
	}
	f["listeners"] = listeners
	return f
}

// text is free of white space and slashes, and full of what HCL escapes.
func (g *generator) text() string {
	return rapid.StringOf(rapid.SampledFrom([]rune(`aé$%{}"\'#`+"`"+`~世`))).Draw(g.t, "text")
}

func (g *generator) pool(l map[string]any) {
	l["chain_id"] = someChain
	l["require_chain_id"] = g.maybe()
	g.put(l, "topology", rapid.SampledFrom([]string{"auto", "stitched"}).Draw(g.t, "topology"))
	g.put(l, "block_failure_quarantine", map[string]any{"strikes": g.number(1, 9), "window_secs": g.number(1, 1<<40), "ttl_secs": g.number(1, 5000), "range": g.number(1, 1<<32-1)})
	if g.maybe() {
		l["stitching"] = map[string]any{
			"history_preference": "any", "predial_blocks": g.number(0, 1<<32-1), "gap_wait_ms": g.number(1, 3_600_000),
			"patch_head_lib": g.maybe(), "abi_file": g.abi, "abi_mismatch": "exclude",
		}
	}
	var servers []any
	for range rapid.IntRange(1, 4).Draw(g.t, "servers") {
		servers = append(servers, g.server())
	}
	l["servers"] = append(servers, map[string]any{"name": "last", "endpoint": "last:1", "enabled": true, "api_endpoint": "last:8888"})
	if g.maybe() {
		api := map[string]any{"listen_port": 20000 + g.next()}
		g.put(api, "allow", []string{"push", "exec"})
		if api["allow"] != nil {
			g.put(api, "push_servers", []string{"last"})
		}
		g.put(api, "block_source", "live_first")
		g.put(api, "max_response_bytes", g.number(65536, 1<<40))
		g.put(api, "probe_ms", g.number(100, 60_000))
		g.put(api, "tls", g.tls)
		if g.maybe() {
			cors := map[string]any{"allow_origin": "https://a.test", "allow_credentials": g.maybe()}
			g.put(cors, "max_age", g.number(0, 1<<32-1))
			g.put(cors, "allow_headers", "x-a, x-b")
			api["cors"] = cors
		}
		l["chain_api"] = api
	}
}

func (g *generator) server() map[string]any {
	n := g.next()
	s := map[string]any{"name": fmt.Sprintf("%s %d", g.text(), n), "enabled": g.maybe()}
	s["endpoint"] = fmt.Sprintf(rapid.SampledFrom([]string{"h%d:1", " wss://H%d", "ws://h%d:5/p?q=${x}"}).Draw(g.t, "endpoint"), n)
	if g.maybe() {
		s["role"] = "frozen"
		begin := g.number(1, 1<<31)
		g.put(s, "range", map[string]any{"begin": begin, "end": begin + g.number(1, 1<<31-1)})
	}
	g.put(s, "max_sessions", g.number(1, 1<<32-1))
	g.put(s, "priority", g.number(0, 1<<32-1))
	g.put(s, "weight", g.number(1, 1<<32-1))
	g.put(s, "api_endpoint", fmt.Sprintf("http://API%d/", n))
	return s
}
