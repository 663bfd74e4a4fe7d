package evm

import (
	"net/http/httptest"
	"testing"

	"flotilla/gateway/simulator"
)

// A node that is not to be believed from the start never gets into the pool, is
// named, and keeps nobody else out of it.
func TestTrustFromTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		fault        simulator.EVMFaults
		more, reason string
	}{
		"an absurd height":          {simulator.EVMFaults{Claim: 1 << 40}, "", "nobody else comes near"},
		"a height without a limit":  {simulator.EVMFaults{Claim: 1<<64 - 1}, "", "nobody else comes near"},
		"another chain":             {simulator.EVMFaults{ChainID: 5}, "chain_id = 1337\n", "on the chain 5, not on 1337"},
		"the chain of the minority": {simulator.EVMFaults{ChainID: 5}, "", "on the chain 5, not on 1337"},
		"a fork":                    {simulator.EVMFaults{Branch: "own"}, "", "fork of its own"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newNodes(t, 3, func(i int, n *simulator.EVMNode) *httptest.Server {
				if i == 0 {
					n.Break(c.fault)
				}
				return httptest.NewServer(n)
			})
			s.start(s.config(c.more + settings))
			eventually(t, "it is named", func() bool {
				s.mine()
				return s.log.line("level=WARN", "a node is set aside", "server=node-0", c.reason)
			})
			s.healthy(2)
			if s.log.line("a node was evicted", "server=node-1") || s.log.line("a node was evicted", "server=node-2") {
				t.Error("it has evicted others")
			}
			s.seenBut(0)
			for range 20 {
				if a := s.call("eth_blockNumber", "[]"); a.node == "node-0" || a.number() != s.chain.Head() {
					t.Fatal(a)
				}
			}
			if got := s.metric("tip_block"); uint64(got) != s.chain.Head() {
				t.Errorf("the tip is %d", got)
			}
		})
	}
}
