package evm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"flotilla/gateway/simulator"
)

// batchOf sends a batch and returns the answers by position.
func (s *scene) batchOf(calls ...string) []answer {
	s.t.Helper()
	_, text, err := post(s.client, "http://"+s.addr+"/", "["+strings.Join(calls, ",")+"]")
	if err != nil {
		s.t.Fatal(err)
	}
	var list []answer
	if err := json.Unmarshal(text, &list); err != nil {
		s.t.Fatalf("%v in %q", err, text)
	}
	return list
}

func call(id int, method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params)
}

// A call for a block goes to a node that has it.
func TestBlockGoesToANodeThatHasIt(t *testing.T) {
	s := newScene(t, 3, "")
	s.chain.Mine(2)
	s.nodes[1].Import(102)
	s.seen()
	for range 20 {
		if a := s.call("eth_getBlockByNumber", `["0x66",false]`); a.node != "node-1" || string(a.Result) == "null" {
			t.Fatal(a)
		}
	}
	t.Run("and load is spread over those that are equally fresh", func(t *testing.T) {
		for _, n := range s.nodes {
			n.Import(102)
		}
		s.seen()
		seen := map[string]bool{}
		for range 100 {
			seen[s.call("eth_getBalance", `["0xaa","latest"]`).node] = true
		}
		if len(seen) != 3 {
			t.Fatalf("only %v", seen)
		}
	})
	t.Run("a block that nobody has is null", func(t *testing.T) {
		if a := s.call("eth_getBlockByNumber", `["0xffff",false]`); string(a.Result) != "null" || a.Error != nil {
			t.Fatal(a)
		}
	})
}

// History that a node has not kept is asked of one that has, and the node is
// not asked for it again.
func TestPrunedHistory(t *testing.T) {
	s := newScene(t, 2, "")
	s.nodes[0].Break(simulator.EVMFaults{Pruned: 50})
	for i := range 30 {
		if a := s.call("eth_getBalance", `["0xaa","0x10"]`); a.Error != nil || a.number() != 16 {
			t.Fatalf("call %d: %v", i, a)
		}
	}
	if n := s.nodes[0].Calls("eth_getBalance"); n > 1 {
		t.Fatalf("the pruned node was asked %d times", n)
	}
	t.Run("when nobody has it, the node's words are passed on", func(t *testing.T) {
		s.nodes[1].Break(simulator.EVMFaults{Pruned: 50})
		if a := s.call("eth_getBalance", `["0xaa","0x11"]`); a.Error == nil || !strings.Contains(a.Error.Message, "missing trie node") {
			t.Fatal(a)
		}
	})
}

// A node whose history is configured is never asked for what is below it.
func TestConfiguredHistory(t *testing.T) {
	s := newScene(t, 2, "")
	cfg := s.config(settings)
	cfg.EVM[0].Servers[0].EarliestBlock = 50
	s.apply(cfg)
	s.healthy(2)
	for range 20 {
		if a := s.call("eth_getBlockByNumber", `["0x10",false]`); a.node != "node-1" {
			t.Fatal(a)
		}
	}
}

// Reads go to another node for every failure that another one may not have.
func TestReadsAreRetried(t *testing.T) {
	for name, f := range map[string]simulator.EVMFaults{
		"cut":               {Cut: true},
		"status 502":        {Status: http.StatusBadGateway},
		"status 429":        {Status: http.StatusTooManyRequests},
		"header not found":  {Errors: map[string]string{"eth_getBalance": `{"code":-32000,"message":"header not found"}`}},
		"no such method":    {Errors: map[string]string{"eth_getBalance": `{"code":-32601,"message":"the method does not exist"}`}},
		"limit exceeded":    {Errors: map[string]string{"eth_getBalance": `{"code":-32005,"message":"daily limit"}`}},
		"missing trie node": {Errors: map[string]string{"eth_getBalance": `{"code":-32000,"message":"missing trie node ab"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 2, unwatched)
			s.nodes[0].Break(f)
			for i := range 8 {
				if a := s.call("eth_getBalance", `["0xaa","latest"]`); a.Error != nil || a.node != "node-1" {
					t.Fatalf("call %d: %v", i, a)
				}
			}
		})
	}
	t.Run("an error of the call is not", func(t *testing.T) {
		s := newScene(t, 2, "")
		for _, n := range s.nodes {
			n.Break(simulator.EVMFaults{Errors: map[string]string{"eth_call": `{"code":3,"message":"execution reverted: timeout"}`}})
		}
		if a := s.call("eth_call", `[{},"latest"]`); a.Error == nil || a.Error.Code != 3 || s.nodes[0].Calls("eth_call")+s.nodes[1].Calls("eth_call") != 1 {
			t.Fatal(a)
		}
	})
}

// A transaction that may have been taken in is not sent again, unless sending
// it again can only say that it is known.
func TestTransactions(t *testing.T) {
	slow := unwatched
	t.Run("one that the node signs is not repeated", func(t *testing.T) {
		s := newScene(t, 2, slow)
		for _, n := range s.nodes {
			n.Break(simulator.EVMFaults{Cut: true})
		}
		a := s.call("eth_sendTransaction", `[{}]`)
		if a.status != http.StatusBadGateway || a.Error == nil || !strings.Contains(a.Error.Message, "may have taken") || string(a.ID) != "1" {
			t.Fatal(a)
		}
	})
	t.Run("already known is success after a retry", func(t *testing.T) {
		s := newScene(t, 2, slow)
		s.nodes[0].Break(simulator.EVMFaults{Status: http.StatusBadGateway})
		s.nodes[1].Break(simulator.EVMFaults{Errors: map[string]string{"eth_sendRawTransaction": `{"code":-32000,"message":"already known"}`}})
		// keccak256 of the byte 0x02.
		const hash = `"0xf2ee15ea639b73fa3db9b34a245bdfa015c260c598b211bf05a1ecc4b3e3b4f2"`
		for range 20 {
			a := s.call("eth_sendRawTransaction", `["0x02"]`)
			if a.Error == nil && string(a.Result) != hash {
				t.Fatal(a)
			}
			if a.Error == nil {
				return
			}
			if !strings.Contains(a.Error.Message, "already known") {
				t.Fatal(a)
			}
		}
		t.Fatal("it never went to the broken node first")
	})
}

func TestBatches(t *testing.T) {
	t.Run("parts that need different nodes are put together in order", func(t *testing.T) {
		s := newScene(t, 2, "")
		s.nodes[0].Break(simulator.EVMFaults{Pruned: 50})
		s.chain.Mine(2)
		s.nodes[0].Import(102)
		s.seen()
		// Block 102 is only with node-0, state 16 only with node-1.
		list := s.batchOf(call(7, "eth_getBalance", `["0xaa","0x10"]`), call(3, "eth_getBalance", `["0xaa","0x66"]`), call(5, "eth_blockNumber", `[]`))
		if len(list) != 3 || string(list[0].ID) != "7" || string(list[1].ID) != "3" || string(list[2].ID) != "5" {
			t.Fatal(list)
		}
		if list[0].number() != 16 || list[1].number() != 102 || list[2].number() != 102 {
			t.Fatal(list)
		}
	})
	t.Run("too many calls", func(t *testing.T) {
		s := newScene(t, 1, "limits { max_batch = 2 }\n")
		_, text, err := post(s.client, "http://"+s.addr+"/", "["+strings.Repeat(call(1, "eth_chainId", "[]")+",", 2)+call(1, "eth_chainId", "[]")+"]")
		if err != nil || !strings.Contains(string(text), "batch too large") {
			t.Fatalf("%s %v", text, err)
		}
	})
	t.Run("the head in a batch does not go back either", func(t *testing.T) {
		s := newScene(t, 2, "")
		s.chain.Mine(3)
		s.nodes[0].Import(103)
		s.seen()
		if a := s.call("eth_blockNumber", "[]"); a.number() != 103 {
			t.Fatal(a)
		}
		s.nodes[0].Break(simulator.EVMFaults{Status: 500})
		s.healthy(1)
		s.nodes[1].Import(103)
		for _, a := range s.batchOf(call(1, "eth_blockNumber", "[]"), call(2, "eth_getBalance", `["0xaa","latest"]`)) {
			if a.number() != 103 {
				t.Fatal(a)
			}
		}
	})
}

// The newest node dies: clients wait for another one to get there, and are told
// plainly when none does.
func TestLatestWaitsForTheHeadThatWasTold(t *testing.T) {
	s := newScene(t, 2, "hold_wait = \"200ms\"\n")
	s.chain.Mine(2)
	s.nodes[0].Import(102)
	s.seen()
	if a := s.call("eth_blockNumber", "[]"); a.number() != 102 {
		t.Fatal(a)
	}
	s.nodes[0].Break(simulator.EVMFaults{Status: 500})
	s.healthy(1)
	if a := s.call("eth_getBalance", `["0xaa","latest"]`); a.status != http.StatusServiceUnavailable || a.Error == nil || !strings.Contains(a.Error.Message, "102") || string(a.ID) != "1" {
		t.Fatal(a)
	}
	s.nodes[1].Import(102)
	if a := s.call("eth_getBalance", `["0xaa","latest"]`); a.number() != 102 {
		t.Fatal(a)
	}
}

// safe and finalized are the same for all nodes, and never go back.
func TestSafeAndFinalized(t *testing.T) {
	s := newScene(t, 2, "")
	number := func() uint64 {
		var block struct{ Number string }
		a := s.call("eth_getBlockByNumber", `["finalized",false]`)
		if json.Unmarshal(a.Result, &block) != nil {
			t.Fatal(a)
		}
		n := answer{Result: json.RawMessage(`"` + block.Number + `"`)}
		return n.number()
	}
	s.chain.Mine(20)
	s.nodes[0].Import(103)
	eventually(t, "the final block of the freshest node", func() bool { return number() == 99 })
	s.nodes[0].Break(simulator.EVMFaults{Status: 500})
	s.healthy(1)
	// node-1 is at 100, and 96 is final for it.
	if n := number(); n != 99 {
		t.Fatalf("block %d is final, and it was 99", n)
	}
	if a := s.call("eth_getBalance", `["0xaa","finalized"]`); a.number() != 99 {
		t.Fatal(a)
	}
}

// Nodes that are not to be believed are set aside, and named.
func TestTrust(t *testing.T) {
	for name, c := range map[string]struct {
		fault  simulator.EVMFaults
		more   string
		reason string
	}{
		"an absurd height": {simulator.EVMFaults{Claim: 1 << 40}, "", "nobody else comes near"},
		"another chain":    {simulator.EVMFaults{ChainID: 5}, "", "on the chain 5"},
		"a fork":           {simulator.EVMFaults{Branch: "own"}, "", "fork of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 3, c.more+settings)
			s.nodes[2].Break(c.fault)
			if c.fault.ChainID != 0 {
				// The chain is asked again after a failure.
				s.nodes[2].Break(simulator.EVMFaults{Status: 500})
				s.healthy(2)
				s.nodes[2].Break(c.fault)
			}
			eventually(t, "it is named in the log", func() bool {
				head := s.chain.Mine(1)
				for _, n := range s.nodes {
					n.Import(head)
				}
				return s.log.has(c.reason)
			})
			s.healthy(2)
			for range 10 {
				if a := s.call("eth_blockNumber", "[]"); a.node == "node-2" || a.number() > s.chain.Head() {
					t.Fatal(a)
				}
			}
			s.nodes[2].Break(simulator.EVMFaults{})
			if c.fault.Branch == "" && c.fault.ChainID == 0 {
				s.healthy(3)
			}
		})
	}
}
