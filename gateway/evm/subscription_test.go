package evm

import (
	"encoding/json"
	"fmt"
	"testing"

	"flotilla/gateway/evm/jsonrpc"
)

func subscriptionTo(params string) *subscription {
	return newSubscription(&jsonrpc.Call{ID: []byte("7"), Params: []byte(params)})
}

func TestNothingIsSentTwice(t *testing.T) {
	heads := subscriptionTo(`["newHeads"]`)
	head := func(n int, hash string) []byte { return fmt.Appendf(nil, `{"number":"0x%x","hash":%q}`, n, hash) }
	for i, c := range []struct {
		result []byte
		want   bool
	}{
		{head(5, "a"), true}, {head(5, "a"), false}, {head(6, "b"), true}, {head(5, "c"), true}, {head(6, "b"), false}, {[]byte(`"odd"`), true},
	} {
		if got := heads.admit(c.result); got != c.want {
			t.Errorf("head %d: %v", i, got)
		}
	}
	logs := subscriptionTo(`["logs",{"address":"0x1"}]`)
	log := func(hash string, index int, removed bool) []byte {
		return fmt.Appendf(nil, `{"blockNumber":"0x5","blockHash":%q,"logIndex":"0x%x","removed":%v}`, hash, index, removed)
	}
	for i, c := range []struct {
		result []byte
		want   bool
	}{
		{log("a", 0, false), true}, {log("a", 1, false), true}, {log("a", 0, false), false}, {log("b", 0, false), true}, {log("a", 0, true), true},
	} {
		if got := logs.admit(c.result); got != c.want {
			t.Errorf("log %d: %v", i, got)
		}
	}
}

func TestSentIsBounded(t *testing.T) {
	s := subscriptionTo(`["newHeads"]`)
	for i := range 10 * maxSent {
		s.admit(fmt.Appendf(nil, `{"number":"0x%x","hash":"%d"}`, i, i))
	}
	if len(s.sent) > maxSent || !s.sentHead([]byte(fmt.Sprintf(`"%d"`, 10*maxSent-1))) {
		t.Fatalf("%d are remembered", len(s.sent))
	}
}

func TestLogFilter(t *testing.T) {
	text, err := subscriptionTo(`["logs",{"address":"0x1","topics":[null,"0x2"],"fromBlock":"0x0"}]`).logFilter(16, 32)
	var f struct {
		Address, FromBlock, ToBlock string
		Topics                      []any
	}
	if err != nil || json.Unmarshal(text, &f) != nil || f.Address != "0x1" || f.FromBlock != "0x10" || f.ToBlock != "0x20" || len(f.Topics) != 2 {
		t.Fatalf("%s %v", text, err)
	}
	if text, err := subscriptionTo(`["logs"]`).logFilter(1, 2); err != nil || !json.Valid(text) {
		t.Fatalf("%s %v", text, err)
	}
	if _, err := subscriptionTo(`["logs","odd"]`).logFilter(1, 2); err == nil {
		t.Fatal("a filter that is none")
	}
}

func TestHeadOfBlock(t *testing.T) {
	text, err := headOfBlock([]byte(`{"number":"0x1","hash":"0xa","transactions":["0x1"],"uncles":[],"size":"0x1"}`))
	if err != nil || string(text) != `{"hash":"0xa","number":"0x1"}` {
		t.Fatalf("%s %v", text, err)
	}
	if _, err := headOfBlock([]byte(`7`)); err == nil {
		t.Fatal("a number is no block")
	}
}

func TestLogsFrom(t *testing.T) {
	for _, c := range []struct{ begun, floor, forgotten, want uint64 }{
		{100, 100, 0, 101},   // nothing is certain yet
		{100, 110, 0, 101},   // all that was sent may have been replaced
		{100, 200, 0, 169},   // as far back as another branch may go
		{100, 200, 180, 181}, // what is forgotten might be sent twice
		{100, 200, 300, 201}, // but nothing is left out
		{0, 0, 0, 1}, {0, 5, 0, 1},
	} {
		s := &subscription{begun: c.begun, floor: c.floor, forgotten: c.forgotten}
		if got := s.logsFrom(); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// What is forgotten is all below a block, so that it can be told.
func TestForgottenIsTold(t *testing.T) {
	s := subscriptionTo(`["logs"]`)
	log := func(block, index int) []byte {
		return fmt.Appendf(nil, `{"blockNumber":"0x%x","blockHash":"%d","logIndex":"0x%x","removed":false}`, block, block, index)
	}
	const blocks, each = 100, maxSent / 20
	for b := 1; b <= blocks; b++ {
		for i := range each {
			s.admit(log(b, i))
		}
	}
	if s.forgotten == 0 {
		t.Fatal("nothing was forgotten")
	}
	for b := int(s.forgotten) + 1; b <= blocks; b++ {
		for i := range each {
			if s.admit(log(b, i)) {
				t.Fatalf("log %d of block %d would be sent twice, though only what is up to %d is forgotten", i, b, s.forgotten)
			}
		}
	}
}
