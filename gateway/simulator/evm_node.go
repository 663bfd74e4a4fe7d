package simulator

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// EVMNode is a simulated EVM node: a handler for HTTP and WebSocket. It has the
// blocks of its chain up to the last Import, and the faults that it is given.
type EVMNode struct {
	// Name is its web3_clientVersion, and the X-Node header of its answers.
	Name  string
	chain *EVMChain

	mu      sync.Mutex
	head    uint64
	faults  EVMFaults
	calls   map[string]int
	sockets map[*evmSocket]struct{}
	nextSub int
	filters map[string]*evmFilter
}

// EVMFaults are how a node is not as it should be; the zero value has none.
type EVMFaults struct {
	// Status answers every HTTP request with this status.
	Status int
	// Cut closes the connection of every HTTP request without an answer.
	Cut bool
	// Claim is a height that the node only claims to have.
	Claim uint64
	// ChainID is another chain.
	ChainID uint64
	// Branch is a branch that nobody else has, from the block BranchFrom on.
	Branch     string
	BranchFrom uint64
	// Pruned is the first block that the node has kept.
	Pruned uint64
	// Errors are JSON-RPC errors by method, as raw objects.
	Errors map[string]string
	// Delay comes before each answer.
	Delay time.Duration
	// Deaf refuses WebSockets.
	Deaf bool
}

// NewEVMNode makes a node with all blocks of its chain.
func NewEVMNode(name string, chain *EVMChain) *EVMNode {
	return &EVMNode{Name: name, chain: chain, head: chain.Head(), calls: map[string]int{}, sockets: map[*evmSocket]struct{}{}, filters: map[string]*evmFilter{}}
}

// Break gives the node faults, in place of those that it has.
func (n *EVMNode) Break(f EVMFaults) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.faults = f
}

// Import brings the node to a block and tells its subscribers. A node never
// goes back.
func (n *EVMNode) Import(to uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for n.head < to {
		n.head++
		for s := range n.sockets {
			s.announce(n.head, &n.faults)
		}
	}
}

// Head is the node's newest block.
func (n *EVMNode) Head() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.head
}

// Calls is how often a method was called.
func (n *EVMNode) Calls(method string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.calls[method]
}

// Sockets is how many WebSockets are open.
func (n *EVMNode) Sockets() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.sockets)
}

// Hangup closes every WebSocket without a Close frame.
func (n *EVMNode) Hangup() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for s := range n.sockets {
		s.conn.Close()
	}
}

type evmCall struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

func (n *EVMNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n.mu.Lock()
	f := n.faults
	n.mu.Unlock()
	if websocket.IsWebSocketUpgrade(r) {
		if f.Deaf {
			http.Error(w, "no WebSocket here", http.StatusForbidden)
			return
		}
		n.serveSocket(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	time.Sleep(f.Delay)
	switch {
	case f.Cut:
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close()
		}
		return
	case f.Status != 0:
		http.Error(w, "fault", f.Status)
		return
	case r.Header.Get("X-Refuse") != "":
		http.Error(w, "refused", http.StatusForbidden)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Node", n.Name)
	io.WriteString(w, n.answer(body))
}

// answer is the answer to a body that holds a call or a batch.
func (n *EVMNode) answer(body []byte) string {
	if strings.HasPrefix(strings.TrimSpace(string(body)), "[") {
		var calls []evmCall
		if json.Unmarshal(body, &calls) != nil {
			return evmParseError
		}
		var parts []string
		for _, c := range calls {
			parts = append(parts, n.call(c))
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	var c evmCall
	if json.Unmarshal(body, &c) != nil {
		return evmParseError
	}
	return n.call(c)
}

const evmParseError = `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`

func (n *EVMNode) call(c evmCall) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[c.Method]++
	id := string(c.ID)
	if id == "" {
		id = "null"
	}
	result, fault := n.result(c)
	if text := n.faults.Errors[c.Method]; text != "" {
		fault = text
	}
	if fault != "" {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, id, fault)
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// result answers one call; n.mu is held. Fault is a raw error object, or empty.
func (n *EVMNode) result(c evmCall) (result, fault string) {
	head := max(n.head, n.faults.Claim)
	switch c.Method {
	case "eth_chainId":
		id := n.chain.ID
		if n.faults.ChainID != 0 {
			id = n.faults.ChainID
		}
		return fmt.Sprintf(`"0x%x"`, id), ""
	case "web3_clientVersion", "test_node":
		return strconv.Quote(n.Name), ""
	case "eth_blockNumber":
		return fmt.Sprintf(`"0x%x"`, head), ""
	case "eth_getBlockByNumber":
		number, ok := evmBlock(c.param(0), head)
		switch {
		case !ok || number > head:
			return "null", ""
		case number < n.faults.Pruned:
			return "", `{"code":4444,"message":"pruned history unavailable"}`
		}
		return n.faults.header(number), ""
	case "eth_getBalance":
		number, ok := evmBlock(c.param(1), head)
		switch {
		case !ok || number > head:
			return "", `{"code":-32000,"message":"header not found"}`
		case number < n.faults.Pruned:
			return "", `{"code":-32000,"message":"missing trie node 0xabc (path )"}`
		}
		return fmt.Sprintf(`"0x%x"`, number), ""
	case "eth_getLogs":
		var f struct{ FromBlock, ToBlock string }
		if json.Unmarshal([]byte(c.param(0)), &f) != nil {
			return "", `{"code":-32602,"message":"invalid filter"}`
		}
		from, _ := evmBlock(strconv.Quote(f.FromBlock), head)
		to, _ := evmBlock(strconv.Quote(f.ToBlock), head)
		// Blocks that are not there yet have no logs.
		return n.faults.logs(from, min(to, head)), ""
	case "eth_getTransactionReceipt", "eth_getTransactionByHash":
		// Every transaction is in the newest block.
		return fmt.Sprintf(`{"hash":%s,"blockNumber":"0x%x"}`, c.param(0), head), ""
	case "eth_newFilter", "eth_newBlockFilter", "eth_newPendingTransactionFilter":
		return n.newFilter(c.Method), ""
	case "eth_getFilterChanges", "eth_getFilterLogs", "eth_uninstallFilter":
		return n.useFilter(c)
	case "eth_sendRawTransaction":
		if n.calls[c.Method] > 1 {
			return "", `{"code":-32000,"message":"already known"}`
		}
		return `"0x` + strings.Repeat("0", 64) + `"`, ""
	}
	return "", fmt.Sprintf(`{"code":-32601,"message":"the method %s does not exist/is not available"}`, c.Method)
}

func (c *evmCall) param(i int) string {
	if i >= len(c.Params) {
		return `"latest"`
	}
	return string(c.Params[i])
}

// evmBlock reads a block parameter. Two blocks below the head are safe, four
// are final.
func evmBlock(raw string, head uint64) (uint64, bool) {
	var object struct{ BlockNumber, BlockHash string }
	if json.Unmarshal([]byte(raw), &object) == nil {
		// EIP-1898. The number is the last part of a simulated hash.
		raw = strconv.Quote(object.BlockNumber)
		if h := object.BlockHash; len(h) > 16 {
			raw = strconv.Quote("0x" + h[len(h)-16:])
		}
	}
	text, err := strconv.Unquote(raw)
	if err != nil {
		return 0, false
	}
	switch text {
	case "", "latest", "pending":
		return head, true
	case "safe":
		return head - min(head, 2), true
	case "finalized":
		return head - min(head, 4), true
	case "earliest":
		return 0, true
	}
	number, err := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	return number, err == nil
}

// evmSocket is one WebSocket of a client.
type evmSocket struct {
	conn *websocket.Conn
	// write guards the connection's write side, and subs.
	write sync.Mutex
	subs  map[string]string
}

func (n *EVMNode) serveSocket(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	conn, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	s := &evmSocket{conn: conn, subs: map[string]string{}}
	n.mu.Lock()
	n.sockets[s] = struct{}{}
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		delete(n.sockets, s)
		n.mu.Unlock()
		conn.Close()
	}()
	for {
		_, text, err := conn.ReadMessage()
		if err != nil {
			return
		}
		var c evmCall
		if json.Unmarshal(text, &c) == nil && (c.Method == "eth_subscribe" || c.Method == "eth_unsubscribe") {
			n.subscribe(s, c)
			continue
		}
		s.send(n.answer(text))
	}
}

func (n *EVMNode) subscribe(s *evmSocket, c evmCall) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls[c.Method]++
	result := "true"
	s.write.Lock()
	if c.Method == "eth_subscribe" {
		n.nextSub++
		// Ids differ between nodes, as those of real ones do.
		id := fmt.Sprintf("0x%x%x", n.Name, n.nextSub)
		s.subs[id], _ = strconv.Unquote(c.param(0))
		result = strconv.Quote(id)
	} else if id, _ := strconv.Unquote(c.param(0)); s.subs[id] == "" {
		result = "false"
	} else {
		delete(s.subs, id)
	}
	s.write.Unlock()
	s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, c.ID, result))
}

func (s *evmSocket) send(text string) {
	s.write.Lock()
	defer s.write.Unlock()
	s.conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
	_ = s.conn.WriteMessage(websocket.TextMessage, []byte(text)) // A client that is gone shows when it is read from.
}

// announce tells a new head to the subscriptions.
func (s *evmSocket) announce(number uint64, f *EVMFaults) {
	s.write.Lock()
	var texts []string
	for id, kind := range s.subs {
		result := f.header(number)
		if kind == "logs" {
			result = f.log(number)
		}
		texts = append(texts, fmt.Sprintf(`{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":%q,"result":%s}}`, id, result))
	}
	s.write.Unlock()
	for _, text := range texts {
		s.send(text)
	}
}
