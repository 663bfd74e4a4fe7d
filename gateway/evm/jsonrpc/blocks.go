package jsonrpc

// Need is what a call asks of the node that answers it.
type Need struct {
	// Named is true when the call names block numbers; Lowest and Highest are
	// the ends of what it names then.
	Named           bool
	Lowest, Highest uint64
	// Head is true when the answer depends on the newest block, or on anything
	// that a client may have learned from it: a block hash, a transaction.
	Head bool
	// State is true when the answer is made from the state at a block, which
	// many nodes keep for a shorter time than the blocks.
	State bool
	// Tags are where the call has "safe" or "finalized" as a block, as parts of its
	// parameters with the quotes; a range may have two. What is not used is nil, the
	// last first. Head says nothing of them.
	Tags [2][]byte
}

// Latest reports whether the node has to know the newest block: for what is
// asked, or for what a tag means.
func (n *Need) Latest() bool { return n.Head || n.Tags[0] != nil }

// where tells which parameter of a method is the block.
type where struct {
	// index of the parameter; -1 for none, filter for an object with fromBlock
	// and toBlock as first parameter.
	index int
	state bool
}

const (
	none   = -1
	filter = -2
)

// place is where a method has its block. Known is false for a method that is
// not in the table.
func place(method []byte) (w where, known bool) {
	switch string(method) {
	case "eth_chainId", "net_version", "net_listening", "net_peerCount", "web3_clientVersion", "web3_sha3",
		"eth_protocolVersion", "eth_sendRawTransaction", "eth_accounts", "eth_mining", "eth_coinbase", "eth_hashrate", "rpc_modules":
		return where{none, false}, true
	case "eth_getBlockByNumber", "eth_getBlockTransactionCountByNumber", "eth_getUncleCountByBlockNumber",
		"eth_getUncleByBlockNumberAndIndex", "eth_getTransactionByBlockNumberAndIndex", "eth_getRawTransactionByBlockNumberAndIndex",
		"eth_getBlockReceipts", "eth_getHeaderByNumber", "erigon_getHeaderByNumber", "erigon_getBlockReceiptsByBlockHash", "ots_getBlockDetails",
		"ots_getBlockTransactions", "debug_getRawBlock", "debug_getRawHeader", "debug_getRawReceipts", "parity_getBlockReceipts":
		return where{0, false}, true
	case "debug_traceBlockByNumber", "trace_block", "trace_replayBlockTransactions", "eth_getWitness":
		return where{0, true}, true
	case "eth_feeHistory":
		return where{1, false}, true
	case "eth_getBalance", "eth_getCode", "eth_getTransactionCount", "eth_call", "eth_estimateGas", "eth_createAccessList",
		"eth_simulateV1", "eth_callMany", "debug_traceCall", "ots_hasCode":
		return where{1, true}, true
	case "eth_getStorageAt", "eth_getProof", "trace_call":
		return where{2, true}, true
	case "eth_getLogs", "eth_newFilter", "erigon_getLogs", "trace_filter":
		return where{filter, false}, true
	}
	return where{}, false
}

// NeedOf reads what a call needs. Nothing is allocated. A parameter that cannot
// be read counts as the newest block: the node has the words for it.
func NeedOf(c *Call) Need {
	w, known := place(c.Method)
	switch {
	case !known:
		// By hash, by transaction, or of no use to know.
		return Need{Head: true}
	case w.index == none:
		return Need{}
	case w.index == filter:
		return filterNeed(Element(c.Params, 0))
	}
	n := Need{State: w.state}
	n.block(Element(c.Params, w.index))
	return n
}

// block takes a block parameter in: a number, a tag, or an object with one of
// them or with a hash (EIP-1898). A missing one is "latest".
func (n *Need) block(value []byte) {
	if len(value) > 0 && value[0] == '{' {
		if number := Member(value, "blockNumber"); number != nil {
			value = number
		} else {
			n.Head = true
			return
		}
	}
	text, ok := Text(value)
	if !ok {
		n.Head = true
		return
	}
	switch string(text) {
	case "earliest":
		n.Include(0)
	case "safe", "finalized":
		n.Tags[0], n.Tags[1] = value, n.Tags[0]
	default:
		number, err := Hex(text)
		// A hash is too long for a number.
		if err != nil {
			n.Head = true
			return
		}
		n.Include(number)
	}
}

// Include widens what the call names by a block.
func (n *Need) Include(number uint64) {
	if !n.Named {
		n.Named, n.Lowest, n.Highest = true, number, number
		return
	}
	n.Lowest, n.Highest = min(n.Lowest, number), max(n.Highest, number)
}

func filterNeed(object []byte) (n Need) {
	if Member(object, "blockHash") != nil {
		n.Head = true
		return n
	}
	for _, key := range [...]string{"fromBlock", "toBlock"} {
		value := Member(object, key)
		if value == nil || string(value) == "null" {
			n.Head = true
			continue
		}
		n.block(value)
	}
	return n
}

// Kind tells how an answer goes on without a look at all of it.
type Kind int

// The kinds.
const (
	// Other is a batch, or nothing that could be read.
	Other Kind = iota
	Result
	// Null is the result null.
	Null
	Failure
)

// KindOf reads the beginning of an answer, as far as its result or error.
func KindOf(body []byte) Kind {
	s := scanner{text: body}
	if s.next() != '{' {
		return Other
	}
	s.at++
	for s.next() == '"' {
		start := s.at
		if !s.skipText() {
			return Other
		}
		key := s.text[start+1 : s.at-1]
		if s.next() != ':' {
			return Other
		}
		s.at++
		first := s.next()
		switch {
		case string(key) == "result" && first == 'n':
			return Null
		case string(key) == "result":
			return Result
		case string(key) == "error" && first != 'n':
			return Failure
		}
		if _, ok := s.value(); !ok || s.next() != ',' {
			return Other
		}
		s.at++
	}
	return Other
}
