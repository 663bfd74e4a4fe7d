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

// hash is that of a block as a node with these faults has it.
func (f *EVMFaults) hash(number uint64) string {
	if number < f.BranchFrom {
		return EVMHash(number, "")
	}
	return EVMHash(number, f.Branch)
}

// header is a block as JSON.
func (f *EVMFaults) header(number uint64) string {
	return fmt.Sprintf(`{"number":"0x%x","hash":%q,"parentHash":%q,"timestamp":"0x%x","transactions":[]}`,
		number, f.hash(number), f.hash(number-min(number, 1)), 1_700_000_000+number*12)
}

// log is the one log of a block as JSON.
func (f *EVMFaults) log(number uint64) string {
	return fmt.Sprintf(`{"address":"0x00000000000000000000000000000000000000aa","topics":[],"data":"0x%x","blockNumber":"0x%x","blockHash":%q,`+
		`"transactionHash":"0x%064x","transactionIndex":"0x0","logIndex":"0x0","removed":false}`,
		number, number, f.hash(number), number)
}

func (f *EVMFaults) logs(from, to uint64) string {
	var list []string
	for n := from; n <= to; n++ {
		list = append(list, f.log(n))
	}
	return "[" + strings.Join(list, ",") + "]"
}
