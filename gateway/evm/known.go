package evm

import (
	"encoding/hex"
	"slices"
	"strings"

	"flotilla/gateway/evm/jsonrpc"

	"golang.org/x/crypto/sha3"
)

// Texts by which nodes say that they have a transaction, and that another one of
// its account has been carried out in its place, or the same one.
var (
	knownTexts = []string{"already known", "alreadyknown", "known transaction", "already imported"}
	pastTexts  = []string{"nonce too low", "nonce is too low", "oldnonce"}
)

// settled is the answer to a client whose transaction was sent a second time, as
// the first node was lost: "already known" means that the first one took it in,
// and so may a nonce that is too low, if the node has the transaction. ok is false
// for every other answer.
func (l *Listener) settled(n *Node, call *jsonrpc.Call, body []byte) (answer []byte, ok bool) {
	if string(call.Method) != "eth_sendRawTransaction" {
		return nil, false
	}
	fault := jsonrpc.Inside(body, "error")
	if fault == nil {
		return nil, false
	}
	text := strings.ToLower(jsonrpc.ReadFault(fault).Message)
	known, past := containsAny(text, knownTexts), containsAny(text, pastTexts)
	if !known && !past {
		return nil, false
	}
	hash, ok := transactionHash(jsonrpc.Element(call.Params, 0))
	if !ok {
		return nil, false
	}
	if !known {
		found, err := n.call(`{"jsonrpc":"2.0","id":1,"method":"eth_getTransactionByHash","params":["0x`+hash+`"]}`, l.Config().Health.Timeout)
		if err != nil || string(found) == "null" {
			return nil, false
		}
	}
	id := call.ID
	if id == nil {
		id = []byte("null")
	}
	return slices.Concat([]byte(`{"jsonrpc":"2.0","id":`), id, []byte(`,"result":"0x`), []byte(hash), []byte(`"}`)), true
}

func containsAny(text string, parts []string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}

// blobType is the first byte of a transaction that is sent together with its
// blobs, which do not count for its hash.
const blobType = 0x03

// transactionHash is the hash of a raw transaction, in hex.
func transactionHash(param []byte) (string, bool) {
	text, ok := jsonrpc.Text(param)
	if !ok || len(text) < 4 || text[0] != '0' || text[1]|0x20 != 'x' {
		return "", false
	}
	raw := make([]byte, len(text)/2-1)
	if _, err := hex.Decode(raw, text[2:]); err != nil || raw[0] == blobType {
		return "", false
	}
	h := sha3.NewLegacyKeccak256()
	h.Write(raw)
	return hex.EncodeToString(h.Sum(nil)), true
}
