package main

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"flotilla/gateway/simulator"
)

// evmNode starts a simulated node and returns its URL.
func evmNode(t *testing.T, name string, head uint64, f simulator.EVMFaults) string {
	t.Helper()
	n := simulator.NewEVMNode(name, simulator.NewEVMChain(1337, head))
	n.Break(f)
	return served(t, n)
}

func served(t *testing.T, h http.Handler) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// evmFile is a configuration with those servers and blocks.
func evmFile(t *testing.T, chainID, more string, servers ...string) string {
	t.Helper()
	text := "listener \"evm\" \"main\" {\n  address = \"127.0.0.1:8545\"\n  health { timeout = \"500ms\" }\n"
	if chainID != "" {
		text += "  chain_id = " + chainID + "\n"
	}
	for i, s := range servers {
		text += fmt.Sprintf("  server \"n%d\" {\n    %s\n  }\n", i, s)
	}
	return write(t, "evm.hcl", text+more+"}\n")
}

func TestConfigTestEVM(t *testing.T) {
	at := func(url string) string { return fmt.Sprintf("endpoint = %q", url) }
	good, second, third := evmNode(t, "Sim/v1", 100, simulator.EVMFaults{}), evmNode(t, "Sim/v2", 101, simulator.EVMFaults{}), evmNode(t, "Sim/v3", 99, simulator.EVMFaults{})
	foreign, behind := evmNode(t, "f", 100, simulator.EVMFaults{ChainID: 5}), evmNode(t, "b", 91, simulator.EVMFaults{})
	absurd, deaf := evmNode(t, "a", 1<<40, simulator.EVMFaults{}), evmNode(t, "d", 100, simulator.EVMFaults{Deaf: true})
	failing := evmNode(t, "x", 100, simulator.EVMFaults{Status: http.StatusBadGateway})
	ahead := evmNode(t, "r", 106, simulator.EVMFaults{})
	page := served(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") }))
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + closed.Addr().String()
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)

	for _, c := range []struct {
		name          string
		chain, more   string
		servers       []string
		plain, strict bool // whether the test passes
		words         []string
	}{
		{"all well", "1337", "", []string{at(good), at(second)}, true, true,
			[]string{"is valid.", `Listener "main" on 127.0.0.1:8545`, good, "1337 ", " 100 ", " 101 ", "Sim/v1", "ok", "2 of 2 servers answered."}},
		{"disabled", "1337", "", []string{at(good), at(nobody) + "\n    enabled = false"}, true, true, []string{"disabled, not asked", "1 of 1 servers answered."}},
		{"one dead", "1337", "", []string{at(good), at(nobody)}, true, false, []string{"cannot connect to n1", "refused", `server "n1" did not answer`, "1 of 2 servers answered."}},
		{"all dead", "1337", "", []string{at(nobody)}, false, false, []string{"0 of 1 servers answered."}},
		{"a status", "1337", "", []string{at(good), at(failing)}, true, false, []string{"eth_chainId: HTTP status 502"}},
		{"no node", "1337", "", []string{at(good), at(page)}, true, false, []string{"no JSON-RPC answer"}},
		{"wrong chain", "1337", "", []string{at(good), at(foreign)}, true, false, []string{"wrong chain 5", `server "n1" is on the chain 5, not on 1337`, "2 of 2"}},
		{"the chain of most servers", "", "", []string{at(foreign), at(good), at(second)}, true, false, []string{"warning:", `server "n0" is on the chain 5, not on 1337`}},
		{"behind", "1337", "", []string{at(good), at(behind)}, true, false, []string{`server "n1" is 9 blocks behind the others`}},
		{"an absurd height", "1337", "", []string{at(good), at(third), at(absurd)}, true, false, []string{"not to be believed", `server "n2" reports block 1099511627776, which nobody else comes near`}},
		{"without a WebSocket", "1337", "", []string{at(deaf)}, true, true, []string{" no "}},
		{"WebSocket not used", "1337", "", []string{at(good) + "\n    ws_endpoint = \"none\""}, true, true, []string{" none "}},
		{"a ws_endpoint that does not work", "1337", "", []string{at(good) + fmt.Sprintf("\n    ws_endpoint = %q", "ws"+strings.TrimPrefix(deaf, "http"))}, true, false,
			[]string{"answered with HTTP status 403", `server "n0" has a ws_endpoint that does not work`}},
		{"no trust", "1337", "", []string{at(good), at(secure.URL)}, true, false, []string{"cannot connect to n1", "certificate"}},
		{"the reference", "1337", fmt.Sprintf("  reference { url = %q }\n", second), []string{at(good)}, true, true, []string{"reference: block 101"}},
		{"behind the reference", "1337", fmt.Sprintf("  reference { url = %q }\n", ahead), []string{at(good)}, true, false, []string{"the servers are 6 blocks behind the reference"}},
		{"no reference", "1337", fmt.Sprintf("  reference { url = %q }\n", nobody), []string{at(good)}, true, false, []string{"cannot connect to the reference", "the reference did not answer"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := evmFile(t, c.chain, c.more, c.servers...)
			for _, strict := range []bool{false, true} {
				args, pass := []string{"config", "test", path}, c.plain
				if strict {
					args, pass = append(args, "--strict"), c.strict
				}
				out, _, err := command(args...)
				if (err == nil) != pass {
					t.Errorf("strict %v: %v\n%s", strict, err, out)
				}
				for _, word := range c.words {
					if !strings.Contains(out, word) {
						t.Errorf("the output lacks %q:\n%s", word, out)
					}
				}
			}
		})
	}
}

// A key in the path of a provider's endpoint is not printed, whatever happens.
func TestConfigTestHidesKeys(t *testing.T) {
	const key = "s3cret"
	n := evmNode(t, "n", 100, simulator.EVMFaults{})
	path := evmFile(t, "1337", fmt.Sprintf("  reference { url = %q }\n", "http://127.0.0.1:1/"+key),
		fmt.Sprintf("endpoint = %q\n    ws_endpoint = %q", n+"/v2/"+key, "ws://127.0.0.1:1/ws/"+key), fmt.Sprintf("endpoint = %q", "http://127.0.0.1:1/"+key))
	out, stderr, err := command("config", "test", "--strict", path)
	if err == nil {
		t.Fatal("nobody is there, and the test passes")
	}
	if text := out + stderr + err.Error(); strings.Contains(text, key) {
		t.Errorf("the key is in %s", text)
	}
}

// The certificates of an EVM port are loaded, as run does it.
func TestConfigTestLoadsCertificatesOfEVM(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.pem")
	path := evmFile(t, "1337", fmt.Sprintf("  tls {\n    cert_file = %q\n    key_file = %q\n  }\n", missing, missing), `endpoint = "http://127.0.0.1:1"`)
	if _, _, err := command("config", "test", path); err == nil || !strings.Contains(err.Error(), `listener "main": tls`) || !strings.Contains(err.Error(), missing) {
		t.Fatal(err)
	}
}
