//go:build geth

package geth

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Times of the engine API.
const (
	// callTimeout bounds one call.
	callTimeout = 5 * time.Second
	// filling is how long a node has to put transactions into a block: it begins
	// with an empty one.
	filling = 150 * time.Millisecond
)

// header is what has to be known of a block to build on it.
type header struct{ Hash, Number, Timestamp string }

func (h header) number() uint64 { return quantity(h.Number) }

func quantity(text string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64) // The nodes write nothing else.
	return n
}

// payload is a block as the engine API has it.
type payload json.RawMessage

func (p payload) header() header {
	var h struct{ BlockHash, BlockNumber, Timestamp string }
	_ = json.Unmarshal(p, &h) // It was read from JSON.
	return header{h.BlockHash, h.BlockNumber, h.Timestamp}
}

const zero = "0x0000000000000000000000000000000000000000000000000000000000000000"

// newest is the node's newest block.
func (n *Node) newest(ctx context.Context) (h header, err error) {
	return h, n.engine(ctx, &h, "eth_getBlockByNumber", "latest", false)
}

// build has the node make a block on its head.
func (n *Node) build(ctx context.Context, on header) (payload, error) {
	at := max(uint64(time.Now().Unix()), quantity(on.Timestamp)+1)
	id, err := n.choose(ctx, on.Hash, map[string]any{"timestamp": fmt.Sprintf("0x%x", at), "prevRandao": zero,
		"suggestedFeeRecipient": "0x" + strings.Repeat("11", 20), "withdrawals": []any{}, "parentBeaconBlockRoot": zero})
	if err != nil {
		return nil, err
	}
	time.Sleep(filling)
	var made struct{ ExecutionPayload json.RawMessage }
	if err := n.engine(ctx, &made, "engine_getPayloadV3", id); err != nil {
		return nil, err
	}
	return payload(made.ExecutionPayload), nil
}

// take hands a block to the node and makes it the node's head.
func (n *Node) take(ctx context.Context, block payload) error {
	var status struct{ Status string }
	if err := n.engine(ctx, &status, "engine_newPayloadV3", json.RawMessage(block), []any{}, zero); err != nil {
		return err
	}
	if status.Status != "VALID" {
		return fmt.Errorf("block %d is %s", block.header().number(), status.Status)
	}
	_, err := n.choose(ctx, block.header().Hash, nil)
	return err
}

// choose makes a block the node's head, and begins another one on it when there
// are attributes.
func (n *Node) choose(ctx context.Context, hash string, attributes any) (id string, err error) {
	var chosen struct {
		PayloadID     string
		PayloadStatus struct{ Status string }
	}
	state := map[string]string{"headBlockHash": hash, "safeBlockHash": hash, "finalizedBlockHash": zero}
	if err := n.engine(ctx, &chosen, "engine_forkchoiceUpdatedV3", state, attributes); err != nil {
		return "", err
	}
	if chosen.PayloadStatus.Status != "VALID" {
		return "", fmt.Errorf("the head is %s", chosen.PayloadStatus.Status)
	}
	return chosen.PayloadID, nil
}

// engine calls the engine API.
func (n *Node) engine(ctx context.Context, out any, method string, params ...any) error {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+n.engineAddr, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+token(n.fleet.secret, time.Now()))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	var answer struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return fmt.Errorf("%s: status %d: %w", method, resp.StatusCode, err)
	}
	if answer.Error != nil {
		return fmt.Errorf("%s: %s", method, answer.Error.Message)
	}
	return json.Unmarshal(answer.Result, out)
}

// token is what lets one into the engine API: a JSON Web Token (HS256).
func token(secret []byte, now time.Time) string {
	part := base64.RawURLEncoding.EncodeToString
	signed := part([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + part(fmt.Appendf(nil, `{"iat":%d}`, now.Unix()))
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(signed))
	return signed + "." + part(mac.Sum(nil))
}
