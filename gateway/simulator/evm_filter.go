package simulator

import (
	"fmt"
	"strconv"
	"strings"
)

// evmFilter is a filter that a client has made at a node.
type evmFilter struct {
	method string
	// from is the node's head when the filter was made, told the block up to
	// which the client has been told.
	from, told uint64
}

// newFilter makes a filter and returns its id. Nodes count, so that the ids of
// two of them are alike. n.mu is held.
func (n *EVMNode) newFilter(method string) string {
	id := fmt.Sprintf("0x%x", len(n.filters)+1)
	n.filters[id] = &evmFilter{method, n.head, n.head}
	return strconv.Quote(id)
}

// useFilter answers a call for a filter. n.mu is held.
func (n *EVMNode) useFilter(c evmCall) (result, fault string) {
	id, _ := strconv.Unquote(c.param(0))
	f := n.filters[id]
	switch {
	case c.Method == "eth_uninstallFilter":
		if f == nil {
			return "false", ""
		}
		n.filters[id] = nil
		return "true", ""
	case f == nil, c.Method == "eth_getFilterLogs" && f.method != "eth_newFilter":
		return "", `{"code":-32000,"message":"filter not found"}`
	case c.Method == "eth_getFilterLogs":
		return n.faults.logs(f.from+1, n.head), ""
	}
	first := f.told + 1
	f.told = n.head
	if f.method == "eth_newFilter" {
		return n.faults.logs(first, n.head), ""
	}
	var hashes []string
	for b := first; b <= n.head && f.method == "eth_newBlockFilter"; b++ {
		hashes = append(hashes, strconv.Quote(n.faults.hash(b)))
	}
	return "[" + strings.Join(hashes, ",") + "]", ""
}

// ForgetFilters drops all filters, as a restart does.
func (n *EVMNode) ForgetFilters() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for id := range n.filters {
		n.filters[id] = nil
	}
}
