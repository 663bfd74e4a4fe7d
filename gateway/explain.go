package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"

	"flotilla/chainapi"
	"flotilla/gateway/evm"
	"flotilla/policies/choice"
	"flotilla/stages/explain"
)

// read decodes a request that somebody asks about; an empty text is the zero
// value. fields are named by the error.
func read(text []byte, into any, fields string) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return fmt.Errorf("request is not what is expected: %w; fields are %s", err, fields)
	}
	return nil
}

// explain tells what the listener would do with a request: one of SHiP, or one
// of its chain API when it has a path. api is nil without a chain API.
func (l *listener) explain(api *chainapi.Port, text []byte) (choice.Answer, error) {
	p := l.parts.Load()
	var has struct {
		Path *string `json:"path"`
	}
	// What is wrong with it is told below.
	_ = json.Unmarshal(text, &has)
	if has.Path == nil {
		var q explain.Question
		if err := read(text, &q, explain.Fields+"; path for the chain API"); err != nil {
			return choice.Answer{}, err
		}
		return explain.Ask(l.fleet, p.name(), p.running, q), nil
	}
	var q chainapi.Imagined
	if err := read(text, &q, chainapi.ImaginedFields); err != nil {
		return choice.Answer{}, err
	}
	if api == nil {
		return choice.Answer{}, fmt.Errorf("listener %s has no chain_api, so there are no requests with a path", l.name)
	}
	return api.Explain(q, p.name()), nil
}

// explain tells what the listener would do with a request: a JSON-RPC body, or
// an object that has one beside the client's address and headers.
func (l *evmListener) explain(policy string, text []byte) (choice.Answer, error) {
	q := evm.Imagined{Body: text}
	var has struct {
		Method *json.RawMessage `json:"method"`
	}
	if trimmed := bytes.TrimSpace(text); len(trimmed) == 0 || trimmed[0] == '{' && json.Unmarshal(trimmed, &has) == nil && has.Method == nil {
		q = evm.Imagined{}
		if err := read(text, &q, evm.ImaginedFields+`, or it is the body itself, {"method": ..., "params": ...}`); err != nil {
			return choice.Answer{}, err
		}
		if q.Body == nil {
			q.Body = json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]}`)
		}
	}
	a, err := l.Explain(q, policy)
	if err != nil {
		return a, fmt.Errorf("request is not what is expected: %w", err)
	}
	return a, nil
}
