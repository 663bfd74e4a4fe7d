package config

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"flotilla/policies"
)

const evmFile = `
listener "evm" "mainnet" {
  address  = "127.0.0.1:8545"
  chain_id = 1
  server "erigon-1" {
    endpoint       = "https://10.0.2.10/v2/KEY"
    ws_endpoint    = "wss://10.0.2.10/ws"
    headers        = { Authorization = "Bearer x", X-Team = "a" }
    labels         = { rack = "r1" }
    priority       = 1
    weight         = 5
    earliest_block = 15537394
  }
  server "erigon-2" { endpoint = "http://10.0.2.11:8545" }
  health {
    soft_lag  = 2
    lag_grace = "10s"
  }
  reference { url = "https://ref.example/" }
  management { address = "127.0.0.1:8081" }
  policy "sticky" { header = "x-account" }
}
`

func TestEVMListener(t *testing.T) {
	cfg, warnings, err := Parse("x.hcl", []byte(evmFile))
	if err != nil || len(warnings) > 0 || len(cfg.EVM) != 1 || len(cfg.Listeners) != 0 {
		t.Fatal(err, warnings)
	}
	l := cfg.EVM[0]
	if l.Name != "mainnet" || l.Address != "127.0.0.1:8545" || *l.ChainID != 1 || l.Routing != RouteByBlock || l.HoldWait != 3*time.Second {
		t.Errorf("%+v", l)
	}
	want := &EVMServer{Name: "erigon-1", Endpoint: "https://10.0.2.10/v2/KEY", WSEndpoint: "wss://10.0.2.10/ws", Enabled: true, Priority: 1, Weight: 5,
		Headers: map[string]string{"Authorization": "Bearer x", "X-Team": "a"}, Labels: map[string]string{"rack": "r1"}, EarliestBlock: 15537394}
	if !reflect.DeepEqual(l.Servers[0], want) || l.Servers[1].WebSocketURL() != "ws://10.0.2.11:8545" {
		t.Errorf("%+v %+v", l.Servers[0], l.Servers[1])
	}
	if l.Health.SoftLag != 2 || l.Health.HardLag != 8 || !l.Health.Agree || l.WebSocket.OnRotate != RotateMove || l.Reference.Method != "eth_blockNumber" {
		t.Errorf("%+v %+v", l.Health, l.WebSocket)
	}
	if sticky, ok := l.Policy.New().(*policies.Sticky); !ok || l.Policy.Name != "sticky" || sticky.Header != "x-account" {
		t.Errorf("%+v", l.Policy)
	}
	again, _, err := Parse("x.hcl", FormatHCL(cfg))
	if err != nil || !reflect.DeepEqual(cfg, again) {
		t.Fatalf("written and read again: %v\n%s", err, FormatHCL(cfg))
	}
}

// Both kinds of listeners stand side by side, and share names and ports.
func TestEVMBesideSHiP(t *testing.T) {
	const ship = `
listener "ship" "eos" {
  address = "127.0.0.1:17000"
  server "a" { endpoint = "10.0.0.1:8080" }
}
`
	cfg, _, err := Parse("x.hcl", []byte(ship+evmFile))
	if err != nil || len(cfg.Listeners) != 1 || len(cfg.EVM) != 1 {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"is the name of another listener": strings.Replace(ship, `"eos"`, `"mainnet"`, 1),
		"clashes with":                    strings.Replace(ship, "17000", "8081", 1),
	} {
		if _, _, err := Parse("x.hcl", []byte(text+evmFile)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestEVMRefuses(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{`"evm" "mainnet"`, `"btc" "mainnet"`, "unknown kind"},
		{`"evm" "mainnet"`, `"evm" "a b"`, "white space"},
		{`"127.0.0.1:8545"`, `"nowhere"`, "address"},
		{"chain_id = 1", "chain_id = 0", "chain_id"},
		{`"http://10.0.2.11:8545"`, `"10.0.2.11:8545"`, "no URL of a node"},
		{`"http://10.0.2.11:8545"`, `"ws://10.0.2.11:8545"`, "no URL of a node"},
		{`"http://10.0.2.11:8545"`, `"https://10.0.2.10/v2/KEY"`, "that of server"},
		{`"wss://10.0.2.10/ws"`, `"http://10.0.2.10/ws"`, "ws_endpoint"},
		{`"erigon-2"`, `"erigon-1"`, "another server"},
		{`"Bearer x"`, `7`, "headers"},
		{`"Bearer x"`, `"x\r\ny"`, "headers"},
		{"soft_lag  = 2", "soft_lag = 8", "hard_lag"},
		{"soft_lag  = 2", "soft_lags = 2", "did you mean soft_lag?"},
		{`lag_grace = "10s"`, `lag_grace = 10`, "lag_grace"},
		{`"https://ref.example/"`, `"ref.example"`, "url"},
		{`management { address = "127.0.0.1:8081" }`, `management { address = "127.0.0.1:8545" }`, "clashes"},
		{`policy "sticky"`, `policy "stickie"`, "policy \"stickie\" is not known"},
		{`header = "x-account"`, `header = "x account"`, "is not the name of a header"},
		{`chain_id = 1`, `routing = "freshest"`, "has nothing to choose"},
		{`weight         = 5`, `weight = 0`, "weight"},
	} {
		text := strings.Replace(evmFile, c.old, c.new, 1)
		if text == evmFile {
			t.Fatalf("%q is not in the file", c.old)
		}
		if _, _, err := Parse("x.hcl", []byte(text)); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "x.hcl:") {
			t.Errorf("%s: %v", c.new, err)
		}
	}
	if _, _, err := Parse("x.hcl", []byte("listener \"evm\" \"a\" {\n address = \"127.0.0.1:1\"\n}\n")); err == nil || !strings.Contains(err.Error(), "server") {
		t.Errorf("without servers: %v", err)
	}
}
