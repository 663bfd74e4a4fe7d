package evm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// asAccount makes a call in the name of an account, on a connection of its own,
// and returns the node that answered.
func (s *scene) asAccount(account, body string) string {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+s.addr+"/", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("X-Account", account)
	r.Close = true
	resp, err := s.client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || !json.Valid(text) || strings.Contains(string(text), `"error"`) {
		s.t.Fatalf("%v in %q", err, text)
	}
	return resp.Header.Get("X-Node")
}

// TestPolicyOfAConfiguration keeps each account on a node, and exchanges the
// policy for a script while clients are served.
func TestPolicyOfAConfiguration(t *testing.T) {
	s := newScene(t, 3, `  policy "sticky" { header = "x-account" }`)
	balance, number := call(1, "eth_getBalance", `["0xaa","latest"]`), call(1, "eth_blockNumber", `[]`)
	homes := map[string]bool{}
	for i := range 20 {
		account := fmt.Sprintf("account-%d", i)
		home := s.asAccount(account, balance)
		homes[home] = true
		for range 4 {
			for _, body := range []string{balance, number, "[" + balance + "," + number + "]"} {
				if got := s.asAccount(account, body); got != home {
					t.Fatalf("%s is on %s and on %s", account, home, got)
				}
			}
		}
	}
	if len(homes) < 2 {
		t.Errorf("all accounts are on one node: %v", homes)
	}
	script := filepath.Join(t.TempDir(), "logs.lua")
	if err := os.WriteFile(script, []byte(`
function score(request, server)
  local logs = false
  for _, m in ipairs(request.methods) do logs = logs or m == "eth_getLogs" end
  return (server.name == "node-2") == logs and 1 or 0
end`), 0o600); err != nil {
		t.Fatal(err)
	}
	s.apply(s.config(settings + fmt.Sprintf("  policy \"lua\" {\n    script = %q\n    timeout = \"1s\"\n  }\n", script)))
	logs := call(1, "eth_getLogs", `[{"fromBlock":"0x1","toBlock":"0x2"}]`)
	for range 10 {
		if got := s.asAccount("a", logs); got != "node-2" {
			t.Errorf("logs come from %s", got)
		}
		if got := s.asAccount("a", balance); got == "node-2" {
			t.Error("a balance comes from the node for logs")
		}
	}
}
