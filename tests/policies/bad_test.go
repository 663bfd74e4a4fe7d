package policies

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"flotilla/gateway"
	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"
)

// body is a script whose select does this.
func body(text string) string { return "function select(request, servers)\n" + text + "\nend" }

// TestBadScriptsHarmNoRequest puts scripts of every bad kind in force, one after
// the other, and makes a request of each protocol: all are answered, and each
// script's failure is counted for its listener.
func TestBadScriptsHarmNoRequest(t *testing.T) {
	h := newHouse(t, body("return servers"), "1s")
	h.requests(t)
	for _, c := range []struct{ name, script, kind string }{
		{"an endless loop", body("while true do end"), "instructions"},
		{"an endless loop that catches errors", body("while true do pcall(function() while true do end end) end"), "instructions"},
		{"deep recursion", body("local function f() return 1 + f() end return f()"), "error"},
		{"huge texts", body("local s = ('x'):rep(60000) while true do local t = s .. 'y' end"), "memory"},
		{"a text that doubles", body("local s = 'x' while true do s = s .. s end"), "error"},
		{"string.rep", body("return ('x'):rep(1e9)"), "error"},
		{"string.format", body("return string.format('%999999d', 1)"), "error"},
		{"string.find", body("return (('a'):rep(3000)):find(('.-'):rep(20) .. 'b')"), "instructions"},
		{"string.gsub", body("return ('x'):rep(60000):gsub('x', ('y'):rep(100))"), "error"},
		{"nil", body("return nil"), "result"},
		{"numbers", body("return {1, 2}"), "result"},
		{"foreign tables", body("return {{name = servers[1].name}}"), "result"},
		{"servers that are not there", "local kept = {}\n" + body("for _, s in ipairs(servers) do kept[s.name] = s end return {servers[1].none}"), "error"},
		{"duplicates", body("return {servers[1], servers[1]}"), "result"},
		{"none", body("return {}"), "empty"},
		{"errors inside helpers", body("log('info', hash(servers[1]))"), "error"},
		{"a comparator that fails", body("table.sort(servers, function(a, b) return a.lag < b.none end)"), "error"},
		{"a score that is a text", "function score(request, server) return server.name end", "result"},
		{"a score that is no number", "function score(request, server) return 0/0 end", "result"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h.t = t
			h.put(c.script)
			h.requests(t)
			metrics := h.policyMetrics()
			for _, listener := range []string{"pool", "range", "main"} {
				line := fmt.Sprintf(`flotilla_policy_errors_total{kind=%q,listener=%q,`, c.kind, listener)
				if _, after, ok := strings.Cut(metrics, line); !ok || strings.HasPrefix(strings.SplitN(after, " ", 2)[1], "0") {
					t.Errorf("listener %s: no failure of kind %s in\n%s", listener, c.kind, metrics)
				}
			}
		})
	}
	h.t = t
}

// TestScriptThatIsReplacedWhileItRuns exchanges slow, good and failing scripts
// again and again while clients are served.
func TestScriptThatIsReplacedWhileItRuns(t *testing.T) {
	h := newHouse(t, body("return servers"), "1s")
	var clients sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					h.requests(t)
				}
			}
		})
	}
	slow := "for i = 1, 20000 do state.n = i end "
	for i := range 6 {
		for _, script := range []string{body(slow + "return servers"), body(slow + "error('no')"), body("return {servers[2]}")} {
			h.put(fmt.Sprintf("-- %d\n%s", i, script))
		}
	}
	close(stop)
	clients.Wait()
}

// TestScriptThatIsSwitchedOff is seen for a listener of each protocol wherever
// operators look, and asked again when its file has changed.
func TestScriptThatIsSwitchedOff(t *testing.T) {
	h := newHouse(t, body("error('broken')"), "1s")
	for range 12 {
		h.requests(t)
	}
	off := func(want string) {
		t.Helper()
		metrics := h.policyMetrics()
		code, ready := h.get("/ready")
		for _, listener := range []string{"pool", "range", "main"} {
			if !strings.Contains(metrics, fmt.Sprintf("flotilla_policy_off{listener=%q", listener)) {
				t.Errorf("the metrics do not tell of %s:\n%s", listener, metrics)
			}
			for line := range strings.Lines(metrics) {
				if strings.HasPrefix(line, fmt.Sprintf("flotilla_policy_off{listener=%q", listener)) && !strings.HasSuffix(line, want+"\n") {
					t.Errorf("the metrics say %s", line)
				}
			}
			one, details := h.get("/ready/" + listener)
			for _, text := range []string{ready, details} {
				if got := strings.Contains(text, "policy of "+listener+": "); code != http.StatusOK || one != http.StatusOK || got != (want == "1") {
					t.Errorf("/ready says of %s: %d %d %s", listener, code, one, text)
				}
			}
			if a := h.explain(listener, ""); a.Script.Off != (want == "1") || a.Script.Off && !strings.HasSuffix(a.Script.LastFailure, ".lua:2: broken") {
				t.Errorf("the API says of %s: %+v", listener, a.Script)
			}
		}
	}
	off("1")
	h.put(body("return servers"))
	off("0")
	h.requests(t)
}

// put has every listener take a script, and waits until it has.
func (h *house) put(script string) {
	h.t.Helper()
	for _, name := range []string{"pool", "range", "evm"} {
		h.script(name, script)
	}
	_, before := h.get("/metrics")
	was := value(before, "flotilla_config_revision")
	h.reload <- gateway.Reload{Config: h.config(), Why: "test"}
	h.eventually("the scripts are in force", func() bool {
		_, text := h.get("/metrics")
		return value(text, "flotilla_config_revision") != was
	})
}

func value(metrics, name string) string {
	_, after, _ := strings.Cut(metrics, "\n"+name+" ")
	text, _, _ := strings.Cut(after, "\n")
	return text
}

// requests makes one of each protocol that a policy is asked about, and fails
// the test for any that is not answered in full.
func (h *house) requests(t *testing.T) {
	for _, q := range []struct{ port, path, body, want string }{
		{"pool/chain_api", "/v1/chain/get_account", `{"account_name": "eosio"}`, `"sent":`},
		{"pool/chain_api", "/v1/chain/get_block", `{"block_num_or_id": 100}`, `"block_num":100`},
		{"main", "/", `{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}`, `"result":"0x64"`},
		{"main", "/", `[{"jsonrpc":"2.0","id":1,"method":"eth_chainId","params":[]},{"jsonrpc":"2.0","id":2,"method":"eth_blockNumber","params":[]}]`, `"id":2`},
	} {
		code, text, err := h.post(q.port, q.path, q.body)
		if err != nil || code != http.StatusOK || !strings.Contains(strings.ReplaceAll(text, " ", ""), q.want) {
			t.Errorf("%s %s %s: %d %s %v", q.port, q.path, q.body, code, text, err)
		}
	}
	for _, port := range []string{"pool", "range"} {
		if err := h.stream(port); err != nil {
			t.Errorf("%s: %v", port, err)
		}
	}
}

// stream reads a part of the chain, up to block 330, as one SHiP client.
func (h *house) stream(port string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := simulator.Dial(ctx, "ws://"+h.addresses[port].String()+"/", simulator.ClientOptions{AckEvery: 1})
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Ask(ship.BlocksRequest{Start: 280, End: 331, MaxInFlight: 10, FetchBlock: true, FetchTraces: true}); err != nil {
		return err
	}
	if err := c.Wait(ctx, func(r simulator.Report) bool { return r.Last.Num >= 330 }); err != nil {
		return err
	}
	if r := c.Report(); r.Blocks != 51 {
		return fmt.Errorf("%d blocks, 51 are due", r.Blocks)
	}
	return nil
}
