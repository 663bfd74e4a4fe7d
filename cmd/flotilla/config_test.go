package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"
)

// command runs the command line and returns what it printed.
func command(args ...string) (stdout, stderr string, err error) {
	var out, errOut bytes.Buffer
	root := newRootCommand()
	root.SetArgs(args)
	root.SetOut(&out)
	root.SetErr(&errOut)
	err = root.Execute()
	return out.String(), errOut.String(), err
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// jsonFile is a fleet-router file with those servers and fields.
func jsonFile(t *testing.T, servers string, fields string) string {
	t.Helper()
	return write(t, "config.json", `{"listen_address": "127.0.0.1", "listen_port": 17000, "upstream_reconnect_ms": 3000,
		"upstream_monitoring_ms": 5000, "upstream_status_ms": 5000, "handshake_timeout_ms": 10000, "servers": [`+servers+`]`+fields+`}`)
}

func TestConfigInit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flotilla.hcl")
	out, _, err := command("config", "init", path)
	if err != nil || !strings.Contains(out, "flotilla config test "+path) {
		t.Fatalf("got %q, %v", out, err)
	}
	if _, _, err := config.Load(path); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := command("config", "init", path); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("a second time: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("the file holds %q, %v", text, err)
	}
	if _, _, err := command("config", "init", "--force", path); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(path); err != nil || !bytes.Equal(text, config.Sample()) {
		t.Errorf("the file holds %q, %v", text, err)
	}
	for _, wrong := range []string{filepath.Join(t.TempDir(), "config.json"), filepath.Join(t.TempDir(), "nothing", "x.hcl")} {
		if _, _, err := command("config", "init", wrong); err == nil || !strings.Contains(err.Error(), wrong) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
}

func TestConfigConvert(t *testing.T) {
	in := jsonFile(t, `{"name": "a", "endpoint": "h:1", "enabled": true}`, "")
	want, _, err := config.Load(in)
	if err != nil {
		t.Fatal(err)
	}
	out, stderr, err := command("config", "convert", in)
	if err != nil || out != string(config.FormatHCL(want)) || !strings.Contains(stderr, "chain_id") {
		t.Errorf("got %q, %q, %v", out, stderr, err)
	}
	file := filepath.Join(t.TempDir(), "flotilla.hcl")
	for i, args := range [][]string{{in, file}, {in, file}, {"--force", in, file}} {
		stdout, _, err := command(append([]string{"config", "convert"}, args...)...)
		if (err != nil) != (i == 1) || stdout != "" {
			t.Errorf("%v: %q, %v", args, stdout, err)
		}
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != out {
		t.Errorf("the file holds %q, %v", text, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Errorf("the file is more readable than the old one: %v, %v", info.Mode(), err)
	}

	twice := jsonFile(t, `{"name": "a", "endpoint": "h:1", "enabled": true}, {"name": "a", "endpoint": "h:2", "enabled": true}`, "")
	if _, _, err := command("config", "convert", twice); err == nil || !strings.Contains(err.Error(), "another server") {
		t.Errorf("two servers of one name: %v", err)
	}
	var invalid *config.InvalidError
	if _, _, err := command("config", "convert", jsonFile(t, "", "")); !errors.As(err, &invalid) {
		t.Errorf("a file without servers: %v", err)
	}
}

func TestUsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{"config"}, {"config", "nothing"}, {"config", "test"}, {"config", "init"}, {"config", "convert", "a", "b", "c"},
		{"check", "x"}, {"check", "--port", "99999"}, {"config", "test", "--nothing", "x"},
	} {
		var usage usageError
		if _, _, err := command(args...); !errors.As(err, &usage) {
			t.Errorf("%v: %v is no usage error", args, err)
		}
	}
}

func start(t *testing.T, chain *simulator.Chain, o simulator.Options) *simulator.Node {
	t.Helper()
	n, err := simulator.Start(chain, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// entry is a JSON server.
func entry(name, address, more string) string {
	return fmt.Sprintf(`{"name": %q, "endpoint": %q, "enabled": true%s}`, name, address, more)
}

func archived(begin, end int) string {
	return fmt.Sprintf(`, "role": "frozen", "range": {"begin": %d, "end": %d}`, begin, end)
}

func TestConfigTest(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Seed: "config", Head: 100})
	live := start(t, chain, simulator.Options{First: 90})
	y := start(t, chain, simulator.Options{First: 1, End: 51})
	z := start(t, chain, simulator.Options{First: 51, End: 91})
	foreign := start(t, simulator.NewChain(simulator.ChainOptions{Seed: "other"}), simulator.Options{})
	busy := start(t, chain, simulator.Options{})
	busy.Busy(true)
	pinned := fmt.Sprintf(`, "chain_id": "%s"`, chain.ID())
	fingerprint := ship.Fingerprint(live.ABI())

	for _, c := range []struct {
		name          string
		servers       string
		fields        string
		plain, strict bool // whether the test passes
		words         []string
	}{
		{"all well", entry("a", live.Addr(), ""), pinned, true, true,
			[]string{"is valid.", live.Addr(), " 100 ", " 88 ", "[90,101)", fingerprint, "match", "ok", "1 of 1 servers answered."}},
		{"one down", entry("a", live.Addr(), "") + ", " + entry("b", busy.Addr(), ""), pinned, true, false,
			[]string{"503", `server "b" did not answer`, "1 of 2 servers answered."}},
		{"all down", entry("b", busy.Addr(), ""), pinned, false, false, []string{"503", "0 of 1 servers answered."}},
		{"disabled", entry("a", live.Addr(), "") + `, {"name": "b", "endpoint": "` + busy.Addr() + `", "enabled": false}`, pinned, true, true,
			[]string{"disabled, not asked", "1 of 1 servers answered."}},
		{"wrong chain", entry("a", live.Addr(), "") + ", " + entry("f", foreign.Addr(), ""), pinned, true, false,
			[]string{"wrong chain", `server "f" is on another chain`}},
		{"not pinned", entry("a", live.Addr(), ""), "", true, true, []string{"warning:", "chain_id"}},
		{"covered", entry("y", y.Addr(), archived(1, 51)) + ", " + entry("z", z.Addr(), archived(51, 91)) + ", " + entry("a", live.Addr(), ""), pinned, true, true,
			[]string{"Coverage", "trace        [2,101)", "chain_state  [1,101)", "holes        -", "frozen reported trace [2,51) chain_state [1,51) finality [1,51)"}},
		{"hole", entry("y", y.Addr(), archived(1, 51)) + ", " + entry("z", busy.Addr(), archived(61, 91)) + ", " + entry("a", live.Addr(), ""), pinned, true, false,
			[]string{"holes        [51,61)", "frozen declared trace [61,91)", "fault:", `server "z" did not answer`}},
		{"another range", entry("y", y.Addr(), archived(1, 91)) + ", " + entry("a", live.Addr(), ""), pinned, true, false, []string{"declares the range [1,91)"}},
		{"HTTP only", `{"name": "h", "enabled": true, "api_endpoint": "h:1"}`, pinned, true, false, []string{"no endpoint, not asked"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := jsonFile(t, c.servers, c.fields)
			for _, strict := range []bool{false, true} {
				args := []string{"config", "test", path}
				pass := c.plain
				if strict {
					args, pass = append(args, "--strict"), c.strict
				}
				out, stderr, err := command(args...)
				if (err == nil) != pass {
					t.Errorf("strict %v: %v\n%s", strict, err, out)
				}
				for _, word := range c.words {
					if !strings.Contains(out, word) {
						t.Errorf("the output lacks %q:\n%s", word, out)
					}
				}
				if strings.Contains(out, "\x1b") || stderr != "" {
					t.Errorf("colors or progress without a terminal: %q %q", out, stderr)
				}
			}
		})
	}
}

func TestConfigTestRefusesInvalidFiles(t *testing.T) {
	folder := t.TempDir()
	for _, path := range []string{filepath.Join(folder, "nothing.json"), write(t, "broken.json", "{"), jsonFile(t, "", "")} {
		for _, args := range [][]string{{"config", "test", path}, {"config", "test", "--strict", path}} {
			if _, _, err := command(args...); err == nil || !strings.Contains(err.Error(), path) {
				t.Errorf("%v: %v", args, err)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	open := l.Addr().(*net.TCPAddr)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().(*net.TCPAddr)
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	hcl := func(address string) string {
		return write(t, "flotilla.hcl", fmt.Sprintf("listener \"ship\" \"x\" {\n  address = %q\n  server \"a\" { endpoint = \"h:1\" }\n}\n", address))
	}
	for _, c := range []struct {
		args []string
		pass bool
	}{
		{[]string{"--port", fmt.Sprint(open.Port)}, true},
		{[]string{"--port", fmt.Sprint(nobody.Port)}, false},
		{[]string{"--address", open.String()}, true},
		{[]string{"--address", nobody.String()}, false},
		{[]string{"--config", hcl(open.String())}, true},
		{[]string{"--config", hcl(fmt.Sprintf("0.0.0.0:%d", open.Port))}, true},
		{[]string{"--config", hcl(nobody.String())}, false},
		{[]string{"--config", filepath.Join(t.TempDir(), "nothing.hcl")}, false},
		{[]string{"--config", hcl(nobody.String()), "--port", fmt.Sprint(open.Port)}, true},
	} {
		out, stderr, err := command(append([]string{"check"}, c.args...)...)
		if (err == nil) != c.pass || out+stderr != "" {
			t.Errorf("%v: %v, %q", c.args, err, out+stderr)
		}
	}
}
