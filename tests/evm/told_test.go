package evm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"flotilla/gateway/simulator"
)

// unwatched are settings with which nothing is learned of the nodes but by what
// they answer to clients. The one check of each must not come too late on a busy
// machine.
const unwatched = "health {\n interval = \"1m\"\n timeout = \"20s\"\n readmit = \"0s\"\n subscribe = false\n}\n"

// Whatever shows a block to a client, from then on the client is at that block:
// the head is not below it, and calls go to a node that has it.
func TestWhatShowsABlockTellsTheHead(t *testing.T) {
	for _, c := range []struct{ method, params string }{
		{"eth_blockNumber", `[]`},
		{"eth_getBlockByNumber", `["latest",false]`},
		{"eth_getBlockByNumber", `["0x66",false]`},
		{"eth_getTransactionReceipt", `["0xaa"]`},
		{"eth_getTransactionByHash", `["0xaa"]`},
		{"eth_getLogs", `[{"fromBlock":"0x60","toBlock":"latest"}]`},
	} {
		t.Run(c.method+c.params, func(t *testing.T) {
			s := newScene(t, 2, unwatched)
			s.chain.Mine(2)
			s.nodes[0].Import(102)
			eventually(t, "the answer of node-0", func() bool {
				a := s.call(c.method, c.params)
				return a.node == "node-0" && strings.Contains(string(a.Result), `"0x66"`)
			})
			if got := s.metric("told_block"); got != 102 {
				t.Fatalf("block %d counts as told", got)
			}
			for range 20 {
				if a := s.call("eth_blockNumber", "[]"); a.number() != 102 {
					t.Fatal(a)
				}
				if a := s.call("eth_getBalance", `["0xaa","latest"]`); a.node != "node-0" || a.number() != 102 {
					t.Fatal(a)
				}
			}
		})
	}
}

// A log that is announced tells the head as a head does.
func TestAnnouncedLogTellsTheHead(t *testing.T) {
	s := newScene(t, 2, unwatched)
	c := s.dial()
	sub := c.subscribe(1, `["logs",{}]`)
	i := slices.IndexFunc(s.nodes, func(n *simulator.EVMNode) bool { return n.Calls("eth_subscribe") > 0 })
	s.nodes[i].Import(s.chain.Mine(1))
	eventually(t, "the log", func() bool { return len(c.got(sub)) == 1 })
	if got := s.metric("told_block"); got != 101 {
		t.Fatalf("block %d counts as told", got)
	}
	for range 20 {
		if a := s.call("eth_getBalance", `["0xaa","latest"]`); a.number() != 101 {
			t.Fatal(a)
		}
	}
}

// A range that begins at a tag and ends at the head is asked of a node that has
// the head; one that ends at a tag needs all of its history.
func TestRangesWithTags(t *testing.T) {
	s := newScene(t, 3, "")
	final := func() bool {
		var block struct{ Number string }
		a := s.call("eth_getBlockByNumber", `["finalized",false]`)
		return json.Unmarshal(a.Result, &block) == nil && block.Number == "0x62"
	}
	s.chain.Mine(2)
	s.nodes[0].Import(102)
	eventually(t, "block 98 is final", final)
	s.seen()
	s.call("eth_blockNumber", "[]")
	for range 20 {
		if got := blocksOf(t, s.call("eth_getLogs", `[{"fromBlock":"finalized","toBlock":"latest"}]`)); !slices.Equal(got, []uint64{98, 99, 100, 101, 102}) {
			t.Fatalf("the logs are of %v", got)
		}
	}
	// A node that has not kept a range is asked for others still.
	s.nodes[0].Break(simulator.EVMFaults{Errors: map[string]string{"eth_getLogs": `{"code":4444,"message":"pruned history unavailable"}`}})
	if got := blocksOf(t, s.call("eth_getLogs", `[{"fromBlock":"0x60","toBlock":"finalized"}]`)); len(got) != 3 {
		t.Fatalf("the logs are of %v", got)
	}
	s.nodes[0].Break(simulator.EVMFaults{})
	before := s.nodes[0].Calls("eth_getLogs")
	if got := blocksOf(t, s.call("eth_getLogs", `[{"fromBlock":"0x61","toBlock":"0x66"}]`)); len(got) != 6 || s.nodes[0].Calls("eth_getLogs") != before+1 {
		t.Fatalf("the logs are of %v, and node-0 was not asked", got)
	}
}

// A transaction that was sent a second time, as the first node was lost, is a
// success when the fleet has it, in a batch as well.
func TestTransactionsThatAreThere(t *testing.T) {
	// keccak256 of the byte 0x02.
	const hash = `"0xf2ee15ea639b73fa3db9b34a245bdfa015c260c598b211bf05a1ecc4b3e3b4f2"`
	send := call(3, "eth_sendRawTransaction", `["0x02"]`)
	for name, c := range map[string]struct {
		fault string
		batch bool
		known bool
	}{
		"already known":                      {`{"code":-32000,"message":"already known"}`, false, true},
		"already known, in a batch":          {`{"code":-32000,"message":"already known"}`, true, true},
		"in a block meanwhile":               {`{"code":-32000,"message":"nonce too low: next nonce 8, tx nonce 7"}`, false, true},
		"another one has its nonce":          {`{"code":-32000,"message":"nonce too low"}`, false, false},
		"an error of the transaction itself": {`{"code":-32000,"message":"insufficient funds"}`, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 2, unwatched)
			faults := map[string]string{"eth_sendRawTransaction": c.fault}
			if !c.known {
				faults["eth_getTransactionByHash"] = `{"code":-32000,"message":"not found"}`
			}
			s.nodes[0].Break(simulator.EVMFaults{Status: http.StatusBadGateway})
			s.nodes[1].Break(simulator.EVMFaults{Errors: faults})
			var a answer
			retries := func() int { return s.metric("retries_total") }
			eventually(t, "a second attempt", func() bool {
				before := retries()
				if c.batch {
					a = s.batchOf(send, call(4, "eth_chainId", "[]"))[0]
				} else {
					a = s.call("eth_sendRawTransaction", `["0x02"]`)
				}
				return retries() > before
			})
			if (a.Error == nil) != c.known || c.known && string(a.Result) != hash {
				t.Fatal(a)
			}
		})
	}
}

// What a node may have taken in, and might take in twice, is sent once.
func TestSubmissionsAreSentOnce(t *testing.T) {
	for _, method := range []string{"eth_sendTransaction", "eth_sendRawTransactionSync", "personal_sendTransaction"} {
		s := newScene(t, 3, unwatched)
		for _, n := range s.nodes {
			n.Break(simulator.EVMFaults{Cut: true})
		}
		a := s.call(method, `["0x02"]`)
		if a.Error == nil || !strings.Contains(a.Error.Message, "may have taken") || s.metric("retries_total") != 0 {
			t.Fatal(method, a)
		}
	}
}

// A node that does not answer in time costs that time, and not the call.
func TestSlowNode(t *testing.T) {
	s := newScene(t, 2, unwatched+"limits { request_timeout = \"100ms\" }\n")
	s.nodes[0].Break(simulator.EVMFaults{Delay: time.Second})
	for range 6 {
		if a := s.call("eth_getBalance", `["0xaa","latest"]`); a.Error != nil || a.node != "node-1" {
			t.Fatal(a)
		}
	}
	if s.metric("retries_total") == 0 {
		t.Fatal("the slow node was never asked")
	}
	list := s.batchOf(call(1, "eth_getBalance", `["0xaa","latest"]`), call(2, "eth_chainId", "[]"))
	if len(list) != 2 || list[0].Error != nil || list[1].Error != nil {
		t.Fatal(list)
	}
}

// EIP-1898: an object with a number is a number, one with a hash is a hash.
func TestBlockObjects(t *testing.T) {
	s := newScene(t, 3, "")
	s.chain.Mine(2)
	s.nodes[2].Import(102)
	s.seen()
	for range 20 {
		if a := s.call("eth_getBalance", `["0xaa",{"blockNumber":"0x66"}]`); a.node != "node-2" || a.number() != 102 {
			t.Fatal(a)
		}
	}
	s.call("eth_blockNumber", "[]")
	// Somebody has told the client of the hash: the node must be at the head.
	for range 20 {
		if a := s.call("eth_getBalance", fmt.Sprintf(`["0xaa",{"blockHash":%q}]`, simulator.EVMHash(102, ""))); a.node != "node-2" || a.number() != 102 {
			t.Fatal(a)
		}
	}
}
