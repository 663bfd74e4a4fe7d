package evm

import (
	"bytes"
	"encoding/json"
	"fmt"

	"flotilla/gateway/evm/jsonrpc"
)

// subscription is what a client has subscribed to. Its id is ours, so that it
// stays when the node that serves it does not.
type subscription struct {
	// id is the client's, up the node's; up is empty while no node serves it.
	id, up string
	// params are those of eth_subscribe as they are written, kind the first.
	params []byte
	kind   string
	// request is the id of the client's call; it is nil once that is answered.
	request []byte

	// last is the newest head that the client was sent, sent the hashes of the
	// heads and the keys of the logs, by block.
	last uint64
	sent map[string]uint64
	// begun is the head at which the subscription began, floor a block up to which
	// the client has all logs for certain, and forgotten one above which nothing
	// that was sent is forgotten.
	begun, floor, forgotten uint64
}

// maxSent bounds what is remembered of a subscription.
const maxSent = 2048

func newSubscription(call *jsonrpc.Call) *subscription {
	kind, _ := jsonrpc.Text(jsonrpc.Element(call.Params, 0))
	request := call.ID
	if request == nil {
		request = []byte("null")
	}
	return &subscription{id: newID(), params: bytes.Clone(call.Params), kind: string(kind),
		request: bytes.Clone(request), sent: map[string]uint64{}}
}

// begin notes the head at which the subscription began.
func (s *subscription) begin(head uint64) { s.last, s.begun, s.floor = head, head, head }

// reorgDepth is how many blocks another node may have replaced of those that the
// client had the logs of.
const reorgDepth = 32

// logsFrom is the first block of which logs have to be fetched after a move. Of
// what the client has had, that is a part: another node may have other blocks.
func (s *subscription) logsFrom() uint64 {
	next := s.floor + 1
	return min(next, max(next-min(next, reorgDepth), s.begun+1, s.forgotten+1))
}

// admit reports whether a notification is to be sent: a second time it is not.
func (s *subscription) admit(result []byte) bool {
	key, number, ok := s.key(result)
	if !ok {
		return true
	}
	if _, twice := s.sent[key]; twice {
		return false
	}
	if len(s.sent) >= maxSent {
		s.prune()
	}
	s.sent[key] = number
	if s.kind == "newHeads" {
		s.last = number
	}
	return true
}

// key tells notifications apart that must not be sent twice.
func (s *subscription) key(result []byte) (key string, number uint64, ok bool) {
	switch s.kind {
	case "newHeads":
		hash := jsonrpc.Member(result, "hash")
		number, err := jsonrpc.Number(jsonrpc.Member(result, "number"))
		return string(hash), number, err == nil && hash != nil
	case "logs":
		number, err := jsonrpc.Number(jsonrpc.Member(result, "blockNumber"))
		key := fmt.Sprintf("%s %s %s", jsonrpc.Member(result, "blockHash"), jsonrpc.Member(result, "logIndex"), jsonrpc.Member(result, "removed"))
		return key, number, err == nil
	}
	return "", 0, false
}

// prune forgets the older half of what was sent.
func (s *subscription) prune() {
	low, high := ^uint64(0), uint64(0)
	for _, n := range s.sent {
		low, high = min(low, n), max(high, n)
	}
	middle := low + (high-low)/2
	s.forgotten = max(s.forgotten, middle)
	for key, n := range s.sent {
		if n <= middle {
			delete(s.sent, key)
		}
	}
}

// sentHead reports whether the client was sent a head.
func (s *subscription) sentHead(hash []byte) bool {
	_, ok := s.sent[string(hash)]
	return ok
}

// notification is the text that tells a client of a result.
func (s *subscription) notification(result []byte) []byte {
	return bytes.Join([][]byte{[]byte(`{"jsonrpc":"2.0","method":"eth_subscription","params":{"subscription":"`), []byte(s.id),
		[]byte(`","result":`), result, []byte(`}}`)}, nil)
}

// answered is the answer to eth_subscribe.
func (s *subscription) answered() []byte {
	return bytes.Join([][]byte{[]byte(`{"jsonrpc":"2.0","id":`), s.request, []byte(`,"result":"`), []byte(s.id), []byte(`"}`)}, nil)
}

// logFilter is the parameter of eth_getLogs for what a logs subscription would
// have sent from a block on.
func (s *subscription) logFilter(from, to uint64) ([]byte, error) {
	filter := map[string]json.RawMessage{}
	if given := jsonrpc.Element(s.params, 1); given != nil {
		if err := json.Unmarshal(given, &filter); err != nil {
			return nil, err
		}
	}
	delete(filter, "blockHash")
	filter["fromBlock"], filter["toBlock"] = appendQuantity(nil, from), appendQuantity(nil, to)
	return json.Marshal(filter)
}

// notInHeads are the members of a block that newHeads does not send.
var notInHeads = []string{"transactions", "uncles", "withdrawals", "size", "totalDifficulty"}

// headOfBlock makes what newHeads sends out of a block.
func headOfBlock(block []byte) ([]byte, error) {
	members := map[string]json.RawMessage{}
	if err := json.Unmarshal(block, &members); err != nil {
		return nil, err
	}
	for _, name := range notInHeads {
		delete(members, name)
	}
	return json.Marshal(members)
}
