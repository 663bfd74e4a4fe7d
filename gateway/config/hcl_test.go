package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hclWith is a small valid configuration: body goes into its listener, top
// stands before it.
func hclWith(top, body string) string {
	return top + `
listener "ship" "eos" {
  address  = "127.0.0.1:17000"
  chain_id = "` + someChain + `"
  server "a" { endpoint = "127.0.0.1:18080" }
` + body + `
}
`
}

// hclRules are configurations that have to be refused, with one problem each.
var hclRules = []rule{
	// Syntax and expressions.
	{"not closed", "listener \"ship\" «{", words("closing brace")},
	{"attribute twice", hclWith("", "  max_connections = 1\n  «max_connections = 2"), words("max_connections")},
	{"unknown variable", hclWith("", "  max_connections = «x"), words("x")},
	{"unknown function", hclWith("", "  max_connections = «size(1)"), words("size")},
	{"variable not set", hclWith("", `  max_connections = «env("FLOTILLA_NOT_SET")`), words("FLOTILLA_NOT_SET", "not set")},
	{"file not there", hclWith("", `  max_connections = «file("/nonexistent")`), words("/nonexistent")},
	{"for expression", hclWith("", "  x = [«for a in [1] : a]"), words("for expressions")},
	{"local uses itself", hclWith("locals {\n  «a = local.b\n  b = local.a\n}", ""), words("local.a", "circle")},
	{"local not there", hclWith("", "  max_connections = local«.x"), words("attribute", "x")},
	{"locals with a label", hclWith(`locals «"x" {}`, ""), words("label")},
	{"block in locals", hclWith("locals {\n  «x {}\n}", ""), words("x")},
	{"too deep", hclWith("", "  max_connections = "+strings.Repeat("(", 99)+"«("), words("too deep")},
	{"too long", hclWith("", "  max_connections = local"+strings.Repeat(".a", 5000)+"«.a"), words("too long")},

	// Names.
	{"unknown attribute", hclWith("", "  «max_conections = 1"), words(`listener "eos": max_conections`, "did you mean max_connections?")},
	{"unknown block", hclWith("«lisener \"ship\" \"x\" {}", ""), words("lisener", "did you mean listener?")},
	{"name of fleet-router", hclWith("", "  «upstream_status_ms = 5000"), words("upstream_status_ms", "did you mean upstream_status?")},
	{"listen_port", hclWith("", "  «listen_port = 17000"), words("listen_port", "did you mean address?")},
	{"attribute of a server", hclWith("", "  server \"b\" {\n    endpoint = \"h:1\"\n    «wieght = 2\n  }"), words(`listener "eos": server "b": wieght`, "weight")},
	{"unknown protocol", hclWith(`listener «"shop" "main" {}`, ""), words(`"shop"`, "ship")},
	{"listener without a label", hclWith("«listener \"ship\" {}", ""), words("1 label", `listener "ship" "name"`)},
	{"server without a label", hclWith("", "  «server {}"), words(`listener "eos": server`, `server "name"`)},
	{"server as an attribute", hclWith("", "  server = «[]"), words("server")},
	{"scalar as a block", hclWith("", "  «idle_timeout {}"), words("idle_timeout", "a block", "a time")},
	{"block as a scalar", hclWith("", "  quarantine = «5"), words("quarantine", "a block")},
	{"block twice", hclWith("", "  quarantine {}\n  «quarantine {}"), words("quarantine", "twice")},
	{"no listener", "«admin { address = \"127.0.0.1:9090\" }", words("listener", "missing")},

	// Values.
	{"number for a time", hclWith("", "  idle_timeout = «5"), words("idle_timeout", `"5s"`)},
	{"time without a unit", hclWith("", `  idle_timeout = «"5"`), words("idle_timeout", `"5s"`)},
	{"negative time", hclWith("", `  idle_timeout = «"-5s"`), words("idle_timeout")},
	{"part of a millisecond", hclWith("", `  idle_timeout = «"5us"`), words("idle_timeout")},
	{"too long a time", hclWith("", `  idle_timeout = «"10000h"`), words("idle_timeout")},
	{"stall", hclWith("", `  upstream_stall_timeout = «"999ms"`), words("upstream_stall_timeout", "0s or from 1s to 8760h")},
	{"bad size", hclWith("", `  max_message = «"5 MByte"`), words("max_message", `"64KiB"`)},
	{"size 0", hclWith("", `  max_message = «0`), words("max_message", "1B")},
	{"fraction", hclWith("", "  max_connections = «1.5"), words("max_connections", "1.5")},
	{"huge number", hclWith("", "  max_connections = «1e999"), words("max_connections", "1 to 1000000")},
	{"negative number", hclWith("", "  max_connections = «-1"), words("-", "arithmetic")},
	{"sum", hclWith("", "  max_connections = 1 «+ 1"), words("+", "arithmetic")},
	{"number that takes long", hclWith("", "  max_connections = «1e-9999999"), words("out of any range")},
	{"text that takes long", hclWith("", `  max_connections = [1]["«1e-9999999"]`), words("out of any range")},
	{"address without a port", "listener \"ship\" \"x\" {\n  address = «\"0.0.0.0\"\n  chain_id = \"" + someChain + "\"\n  server \"a\" { endpoint = \"h:1\" }\n}", words(`listener "x": address`, "host:port")},
	{"address with port 0", hclWith(`admin { address = «"127.0.0.1:0" }`, ""), words("admin.address", "port")},
	{"address with a bad host", hclWith(`admin { address = «"a b:1" }`, ""), words("admin.address", "host")},
	{"no address", "«listener \"ship\" \"x\" {\n  chain_id = \"" + someChain + "\"\n  server \"a\" { endpoint = \"h:1\" }\n}", words(`listener "x": address`, "missing")},
	{"no server", "«listener \"ship\" \"x\" {\n  address = \":1\"\n  chain_id = \"" + someChain + "\"\n}", words(`listener "x": server`, "missing")},
	{"server name twice", hclWith("", `  server «"a" { endpoint = "h:1" }`), words(`server "a": name`, "another server")},
	{"blank server name", hclWith("", `  server «"" { endpoint = "h:1" }`), words("name", "blank")},
	{"user name in an endpoint", hclWith("", `  server "b" { endpoint = «"ws://me:pw@h:1" }`), words(`server "b": endpoint`, "user name")},
	{"admin clash", hclWith(`admin { address = «"0.0.0.0:17000" }`, ""), words("admin.address", `listener "eos"`)},
	{"range", hclWith("", `  server "b" {
    endpoint = "h:1"
    role     = "frozen"
    range    = { begin = 2, end = «"x" }
  }`), words(`server "b": range.end`, `"x"`)},
	{"cors for all with credentials", hclWith("", `  server "b" {
    endpoint     = "h:1"
    api_endpoint = "h:2"
  }
  chain_api {
    address = "127.0.0.1:18888"
    cors {
      allow_origin      = "*"
      allow_credentials = «true
    }
  }`), words("chain_api.cors.allow_credentials", "browsers")},
}

func TestHCLRules(t *testing.T) {
	for _, r := range hclRules {
		t.Run(r.name, func(t *testing.T) { expectProblem(t, "flotilla.hcl", r.text, r.words...) })
	}
}

func TestHCLWarnings(t *testing.T) {
	for _, r := range []rule{
		{"dashboard", hclWith("admin {\n  address = \"127.0.0.1:9090\"\n  «dashboard {}\n}", ""), words("admin.dashboard", "does not serve")},
		{"no port", hclWith("", `  server "b" { endpoint = «"h" }`), words(`server "b": endpoint`, "80")},
	} {
		t.Run(r.name, func(t *testing.T) {
			expectWarning(t, "flotilla.hcl", r.text, r.words...)
		})
	}
}

func TestHCLValues(t *testing.T) {
	t.Setenv("FLOTILLA_TEST_PORT", "17005")
	path := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(path, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, _, err := Parse("flotilla.hcl", []byte(`
locals {
  head = local.rack
  rack = 11
}
shutdown_grace = "1m30s"
admin {
  address = ":9090"
  dashboard {
    control_token = file("`+path+`")
    allowed_hosts = [" Example.COM "]
  }
}
defaults {
  idle_timeout    = "2h"
  max_connections = 7
  max_message     = "1GiB"
}
listener "ship" "eos" {
  address         = "[::1]:${env("FLOTILLA_TEST_PORT")}"
  chain_id        = " `+strings.ToUpper(someChain)+` "
  max_connections = local.head
  hold_wait       = "0s"
  client_buffer   = 1000
  quarantine { ttl = "90s" }
  server "a" {
    endpoint     = "wss://Node.example"
    max_sessions = null
    priority     = 3
  }
  server "z" {
    endpoint = " ws://h:1/p?q=1#f "
    role     = "frozen"
    range    = { begin = 2, "end" = 10 }
  }
}
listener "ship" "wax" {
  address = "127.0.0.1:17001"
  server "a" { endpoint = "[::1]:80" }
}
`))
	if err != nil {
		t.Fatal(err)
	}
	eos, wax := cfg.Listeners[0], cfg.Listeners[1]
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"single", cfg.Single, false},
		{"path", cfg.Path, "flotilla.hcl"},
		{"grace", cfg.ShutdownGrace, 90 * time.Second},
		{"admin", cfg.Admin.Address, "0.0.0.0:9090"},
		{"token", cfg.Admin.Dashboard.ControlToken, "0123456789abcdef"},
		{"host", cfg.Admin.Dashboard.AllowedHosts[0], "example.com"},
		{"dashboard", cfg.Admin.Dashboard.Enabled, true},
		{"name", eos.Name, "eos"},
		{"address", eos.Address, "[::1]:17005"},
		{"cap", eos.MaxConnections, 11},
		{"inherited cap", wax.MaxConnections, 7},
		{"inherited timeout", eos.IdleTimeout, 2 * time.Hour},
		{"inherited size", wax.MaxMessage, int64(1 << 30)},
		{"hold", eos.HoldWait, time.Duration(0)},
		{"default hold", wax.HoldWait, 30 * time.Second},
		{"buffer", eos.ClientBuffer, int64(1000)},
		{"default buffer", wax.ClientBuffer, int64(16 << 20)},
		{"default slow client", wax.SlowClientTimeout, time.Minute},
		{"reconnect", wax.Reconnect, 3 * time.Second},
		{"monitoring", wax.Monitoring, 5 * time.Second},
		{"status", wax.Status, 5 * time.Second},
		{"quarantine", *eos.Quarantine, Quarantine{2, 5 * time.Minute, 90 * time.Second, 1}},
		{"no quarantine", wax.Quarantine == nil, true},
		{"stitched", eos.Stitched(), true},
		{"gap wait", wax.Stitching.GapWait, 30 * time.Second},
		{"chain", eos.ChainID[0], byte(0xac)},
		{"label", eos.Servers[1].Endpoint, " ws://h:1/p?q=1#f "},
		{"url", eos.Servers[1].URL, "ws://h:1/p?q=1"},
		{"wss url", eos.Servers[0].URL, "wss://Node.example:443/"},
		{"bare url", wax.Servers[0].URL, "ws://[::1]:80/"},
		{"no session cap", eos.Servers[0].MaxSessions, 0},
		{"priority", eos.Servers[0].Priority, uint32(3)},
		{"weight", eos.Servers[0].Weight, uint32(1)},
		{"enabled", eos.Servers[0].Enabled, true},
		{"range", *eos.Servers[1].Range, Range{2, 10}},
	} {
		if c.got != c.want {
			t.Errorf("%s is %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestFolderIsReadAsOneFile(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := Load(folder); err == nil || !strings.Contains(err.Error(), folder) {
		t.Fatalf("an empty folder gives %v", err)
	}
	write("a.hcl", "listener \"ship\" \"x\" {\n  address = local.address\n  server \"a\" { endpoint = \"h:1\" }\n}\n")
	write("b.hcl", "locals { address = \"127.0.0.1:1\" }\nlistener \"ship\" \"y\" {\n  address = \"127.0.0.1:2\"\n  server \"a\" { endpoint = \"h:1\" }\n}\n")
	write(".hidden.hcl", "{")
	write("notes.txt", "{")
	cfg, _, err := Load(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Listeners) != 2 || cfg.Listeners[0].Address != "127.0.0.1:1" || cfg.Listeners[1].Name != "y" || cfg.Path != folder {
		t.Fatalf("got %+v", cfg)
	}
	write("c.hcl", "\nlistener \"ship\" \"x\" {\n  address = \"127.0.0.1:3\"\n  server \"a\" { endpoint = \"h:1\" }\n}\n")
	_, _, err = Load(folder)
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		t.Fatalf("got %v", err)
	}
	expectAt(t, invalid.Problems[0], filepath.Join(folder, "c.hcl"), 2, 17, words(`listener "x": name`, "another listener"))
}
