package simulator

import (
	"fmt"
	"strings"
	"sync"
)

// EVMChain is a chain without forks that EVM nodes follow. Each block has one
// log. It is safe for concurrent use.
type EVMChain struct {
	// ID is the answer to eth_chainId.
	ID uint64

	mu   sync.Mutex
	head uint64
}

// NewEVMChain makes a chain with blocks 0 to head.
func NewEVMChain(id, head uint64) *EVMChain { return &EVMChain{ID: id, head: head} }

// Mine adds blocks and returns the new head. Nodes learn of them by
// EVMNode.Import.
func (c *EVMChain) Mine(count uint64) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.head += count
	return c.head
}

// Head is the number of the newest block.
func (c *EVMChain) Head() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.head
}

// EVMHash is the hash of a block on a branch; the branch of everybody is "".
func EVMHash(number uint64, branch string) string {
	mark := uint64(0)
	for _, r := range branch {
		mark = mark*31 + uint64(r)
	}
	return fmt.Sprintf("0x%048x%016x", mark, number)
}

// evmHeader is a block as JSON.
func evmHeader(number uint64, branch string) string {
	parent := EVMHash(number, branch)
	if number > 0 {
		parent = EVMHash(number-1, branch)
	}
	return fmt.Sprintf(`{"number":"0x%x","hash":%q,"parentHash":%q,"timestamp":"0x%x","transactions":[]}`,
		number, EVMHash(number, branch), parent, 1_700_000_000+number*12)
}

// evmLog is the one log of a block as JSON.
func evmLog(number uint64, branch string) string {
	return fmt.Sprintf(`{"address":"0x00000000000000000000000000000000000000aa","topics":[],"data":"0x%x","blockNumber":"0x%x","blockHash":%q,`+
		`"transactionHash":"0x%064x","transactionIndex":"0x0","logIndex":"0x0","removed":false}`,
		number, number, EVMHash(number, branch), number)
}

func evmLogs(from, to uint64, branch string) string {
	var list []string
	for n := from; n <= to; n++ {
		list = append(list, evmLog(n, branch))
	}
	return "[" + strings.Join(list, ",") + "]"
}
