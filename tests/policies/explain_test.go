package policies

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
)

// script prefers b, live-2 and e1, drops a for one account, and fails for
// another one.
const script = `
function select(request, servers)
  if request.headers["x-account"] == "broken" then error("no such account") end
  log("info", "asked by " .. request.client)
  counter("asked")
  local out = {}
  for _, s in ipairs(servers) do
    if not (s.name == "a" and request.headers["x-account"] == "picky") then out[#out + 1] = s end
  end
  table.sort(out, function(x, y) return x.name > y.name end)
  return out
end`

// TestExplain asks each listener about requests in words of its own.
func TestExplain(t *testing.T) {
	h := newHouse(t, script, "1s")
	// A client is told of block 100; from then on it may see no older head.
	if _, text, err := h.post("main", "/", `{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}`); !strings.Contains(text, `"0x64"`) {
		t.Fatalf("the head is %s, %v", text, err)
	}
	before := h.policyMetrics()
	for _, c := range []struct {
		name, listener, request string
		order, plan             string
		says                    []string
	}{
		{"ship, nothing asked", "pool", ``, "b a", "serve", []string{"plan leaves out gone: it is offline", "candidates are a (rank 0), b (rank 0)",
			"pool.lua) is asked about", "the script would log at level info: asked by", "the script would add 1 to the counter asked", "b gets the request"}},
		{"ship, a script that drops", "pool", `{"start_block": 5, "client": "10.0.0.7", "headers": {"X-Account": "picky"}}`, "b", "serve",
			[]string{"asked by 10.0.0.7", "the policy drops a"}},
		{"ship, a script that fails", "pool", `{"headers": {"x-account": "broken"}}`, "", "serve",
			[]string{"the script fails (error), so least_connections decides", "pool.lua:3: no such account", "gets the request"}},
		{"stitched, in an archive", "range", `{"start_block": 10, "traces": true}`, "old", "serve",
			[]string{"plan leaves out live-1: it does not have the block in all logs that are asked for", "old is the only one, so the policy is not asked"}},
		{"stitched, at the tip", "range", `{"start_block": 500, "traces": true}`, "live-2 live-1", "serve",
			[]string{"plan leaves out old: ", "range.lua) is asked about live-1, live-2", "live-2 gets the request"}},
		{"stitched, before the first block", "range", `{"start_block": 1, "traces": true, "deltas": true, "blocks": true}`, "", "", []string{"plan"}},
		{"stitched, above the head", "range", `{"start_block": 5000, "traces": true}`, "", "", []string{"plan leaves out old"}},
		{"chain API, a state call", "pool", `{"path": "/v1/chain/get_account", "body": {"account_name": "eosio"}, "client": "10.0.0.9"}`, "b a", "serve",
			[]string{"of class state", "is asked about a, b", "asked by 10.0.0.9", "b gets the request"}},
		{"chain API, an irreversible block", "pool", `{"path": "/v1/chain/get_block", "body": {"block_num_or_id": 100}}`, "b a", "serve",
			[]string{"of class block, for block 100, which cannot change any more", "rank 1: live nodes whose block log holds it", "b gets the request"}},
		{"chain API, a block that can change", "pool", `{"path": "/v1/chain/get_block", "body": {"block_num_or_id": 595}, "headers": {"x-account": "picky"}}`, "b", "serve",
			[]string{"block 595, which can still change", "the policy drops a"}},
		{"chain API, a block that nobody has", "pool", `{"path": "/v1/chain/get_block", "body": {"block_num_or_id": 99999}}`, "a b", "serve", []string{"for block 99999"}},
		{"chain API, get_info", "pool", `{"path": "/v1/chain/get_info"}`, "", "serve", []string{"keep to one node"}},
		{"chain API, a push", "pool", `{"path": "/v1/chain/push_transaction", "body": {}}`, "", "serve", []string{"of class push", "not a matter of the policy"}},
		{"chain API, an exec call", "pool", `{"path": "/v1/chain/compute_transaction", "body": {}, "headers": {"x-account": "broken"}}`, "", "serve",
			[]string{"of class exec", "the script fails (error)"}},
		{"chain API, a path that nodes do not have", "pool", `{"path": "/v1/producer/pause"}`, "", "refuse", []string{"the port answers itself"}},
		{"evm, a call", "main", `{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0xaa","latest"]}`, "e1 e0", "serve",
			[]string{"calls eth_getBalance; a node must have", "evm.lua) is asked about", "e1 gets the request"}},
		{"evm, an old block", "main", `{"method":"eth_getBlockByNumber","params":["0x5",false]}`, "e1 e0 e2", "serve",
			[]string{"the blocks from block 5 on", "e2 is not as fresh as others"}},
		{"evm, a client and its headers", "main", `{"client": "10.0.0.3", "headers": {"X-Account": "broken"}, "body": {"method": "eth_call", "params": [{}, "latest"]}}`, "", "serve",
			[]string{"the script fails (error)", "evm.lua:3: no such account"}},
		{"evm, a batch", "main", `[{"id":1,"method":"eth_chainId"},{"id":2,"method":"eth_getBlockByNumber","params":["0x64",false]}]`, "e1 e0", "serve",
			[]string{"calls eth_chainId, eth_getBlockByNumber", "plan leaves out e2: it does not have block 100 yet"}},
		{"evm, a subscription", "main", `{"method":"eth_subscribe","params":["newHeads"]}`, "", "serve", []string{"not a matter of the policy"}},
		{"evm, nothing", "main", ``, "", "serve", []string{"calls eth_blockNumber"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h.t = t
			a := h.explain(c.listener, c.request)
			steps := strings.Join(a.Steps, "\n")
			for _, says := range c.says {
				if !strings.Contains(steps, says) {
					t.Errorf("the steps lack %q:\n%s", says, steps)
				}
			}
			if got := strings.Join(a.Order, " "); c.order != "" && got != c.order || c.plan != "" && a.Plan != c.plan {
				t.Errorf("the plan is %s and the order %q, want %s and %q:\n%s", a.Plan, got, c.plan, c.order, steps)
			}
			if a.Policy != "lua" || a.Script == nil || a.Listener != c.listener {
				t.Errorf("the answer is %+v", a)
			}
		})
	}
	// Asking has changed nothing.
	h.t = t
	if after := h.policyMetrics(); after != before {
		t.Errorf("the metrics were\n%sand are\n%s", before, after)
	}
	for request, says := range map[string]string{
		"pool {":                      "unexpected EOF",
		`pool {"startblock": 5}`:      "start_block",
		`pool {"start_block": -5}`:    "start_block",
		`pool {"path": 5}`:            "path",
		`pool {"path": "/", "x": 1}`:  "path, body, method",
		`range {"path": "/v1/chain"}`: "has no chain_api",
		`main {"method": 5`:           "JSON-RPC",
		`main 5`:                      "JSON-RPC",
		`main []`:                     "JSON-RPC",
		`main {"bodies": 5}`:          "body, client, headers",
	} {
		listener, body, _ := strings.Cut(request, " ")
		code, text := h.get("/api/v1/listeners/" + listener + "/explain?request=" + url.QueryEscape(body))
		if code != http.StatusBadRequest || !strings.Contains(text, says) {
			t.Errorf("%s: %d %s, want %q", request, code, text, says)
		}
	}
	if code, _ := h.get("/api/v1/listeners/other/explain"); code != http.StatusNotFound {
		t.Errorf("an unknown listener is %d", code)
	}
}
