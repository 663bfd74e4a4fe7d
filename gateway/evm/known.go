package evm

import (
	"bytes"
	"encoding/hex"
	"strings"

	"flotilla/gateway/evm/jsonrpc"

	"github.com/valyala/fasthttp"
	"golang.org/x/crypto/sha3"
)

// settleKnown answers a client whose transaction was sent a second time, as the
// first node was lost: "already known" means that the first one took it in.
func settleKnown(call *jsonrpc.Call, resp *fasthttp.Response) {
	if string(call.Method) != "eth_sendRawTransaction" || resp.IsBodyStream() {
		return
	}
	fault := jsonrpc.Inside(resp.Body(), "error")
	if fault == nil {
		return
	}
	text := strings.ToLower(jsonrpc.ReadFault(fault).Message)
	if !strings.Contains(text, "already known") && !strings.Contains(text, "alreadyknown") && !strings.Contains(text, "known transaction") {
		return
	}
	hash, ok := transactionHash(jsonrpc.Element(call.Params, 0))
	if !ok {
		return
	}
	id := call.ID
	if id == nil {
		id = []byte("null")
	}
	body := bytes.Join([][]byte{[]byte(`{"jsonrpc":"2.0","id":`), id, []byte(`,"result":"0x`), []byte(hash), []byte(`"}`)}, nil)
	resp.SetBody(body)
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
