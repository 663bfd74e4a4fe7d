package evm

import (
	"net"
	"strings"
	"testing"
	"time"

	"flotilla/gateway/evm/jsonrpc"

	"github.com/valyala/fasthttp"
)

func TestJudge(t *testing.T) {
	fault := func(code, message string) string {
		return `{"id":1,"error":{"code":` + code + `,"message":"` + message + `"}}`
	}
	for _, c := range []struct {
		method, params string
		status         int
		body           string
		want           verdict
	}{
		{"eth_call", "", 200, `{"id":1,"result":"0x1"}`, good},
		{"eth_call", "", 500, ``, elsewhere},
		{"eth_call", "", 429, ``, elsewhere},
		{"eth_call", "", 401, ``, elsewhere},
		{"eth_call", "", 402, ``, elsewhere},
		{"eth_call", "", 403, ``, elsewhere},
		{"eth_call", "", 404, ``, good},
		{"eth_call", "", 408, ``, elsewhere},
		{"eth_call", "", 400, ``, good},
		{"eth_call", "", 413, ``, good},
		{"eth_call", "", 200, fault("3", "execution reverted: pruned"), good},
		{"eth_call", "", 200, fault("-32000", "execution reverted"), good},
		{"eth_call", "", 200, fault("-32000", "missing trie node abc (path )"), pruned},
		{"eth_call", "", 200, fault("-32000", "header not found"), elsewhere},
		{"eth_call", "", 200, fault("-32601", "the method eth_call does not exist/is not available"), elsewhere},
		{"eth_call", "", 200, fault("-32005", "limit"), elsewhere},
		{"eth_call", "", 200, fault("-32602", "invalid argument 0"), good},
		{"eth_call", "", 200, fault("-32000", "insufficient funds for gas"), good},
		{"eth_sendRawTransaction", "", 200, fault("-32000", "nonce too low"), good},
		{"eth_sendRawTransaction", "", 200, fault("-32000", "timeout"), good},
		{"eth_getBlockByNumber", `["0x5"]`, 200, `{"id":1,"result":null}`, elsewhere},
		{"eth_getBlockByNumber", `["0x50"]`, 200, `{"id":1,"result":null}`, good},
		{"eth_getTransactionReceipt", `["0x5"]`, 200, `{"id":1,"result":null}`, good},
		{"eth_getBlockByNumber", `["0x5"]`, 200, `<html>`, good},
	} {
		call := &jsonrpc.Call{Method: []byte(c.method), Params: []byte(c.params)}
		need := jsonrpc.NeedOf(call)
		resp := &fasthttp.Response{}
		resp.SetStatusCode(c.status)
		resp.SetBodyString(c.body)
		if got := judge(resp, call, need, plan(need, 10, 10)); got != c.want {
			t.Errorf("%s %s: %d, want %d", c.method, c.body, got, c.want)
		}
	}
}

func TestTransactionHash(t *testing.T) {
	for param, want := range map[string]string{
		`"0x02"`: "f2ee15ea639b73fa3db9b34a245bdfa015c260c598b211bf05a1ecc4b3e3b4f2",
		`"0x03"`: "", `"0x"`: "", `"0x0"`: "", `"0xzz"`: "", `7`: "", ``: "",
	} {
		if got, ok := transactionHash([]byte(param)); got != want || ok != (want != "") {
			t.Errorf("%s: %q %v", param, got, ok)
		}
	}
}

func TestRates(t *testing.T) {
	a, b := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}, &net.TCPAddr{IP: net.IPv4(10, 0, 0, 2), Port: 1}
	again := &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 2}
	now := time.Unix(1_800_000_000, 0)
	r := newRates(10, 20)
	if !r.allow(a, 20, now) || r.allow(again, 1, now) {
		t.Fatal("the burst is 20 for an address, whatever its port")
	}
	if !r.allow(b, 1, now) {
		t.Fatal("another address has its own")
	}
	if now = now.Add(time.Second); !r.allow(a, 10, now) || r.allow(a, 1, now) {
		t.Fatal("ten come back in a second")
	}
	now = now.Add(time.Hour)
	if !r.allow(b, 1000, now) {
		t.Fatal("a batch above the burst can be made after a rest")
	}
	if len(r.clients) != 1 {
		t.Fatalf("%d addresses are remembered", len(r.clients))
	}
	if !newRates(0, 0).allow(a, 1<<20, now) {
		t.Fatal("no limit")
	}
}

func TestOnce(t *testing.T) {
	for method, want := range map[string]bool{
		"eth_sendTransaction": true, "personal_sendTransaction": true, "eth_sendRawTransactionSync": true, "eth_sendUserOperation": true,
		"eth_sendRawTransaction": false, "eth_call": false, "eth_blockNumber": false, "": false,
	} {
		if got := once([]byte(method)); got != want {
			t.Errorf("%s: %v", method, got)
		}
	}
}

func TestShown(t *testing.T) {
	for _, c := range []struct {
		method, body string
		number       uint64
		byTag, ok    bool
	}{
		{"eth_getBlockByNumber", `{"id":1,"result":{"hash":"0x1","number":"0x64","transactions":[]}}`, 100, true, true},
		{"eth_getHeaderByNumber", `{"id":1,"result":{"number":"0x64"}}`, 100, true, true},
		{"eth_getBlockByHash", `{"id":1,"result":{"number":"0x64"}}`, 100, false, true},
		{"eth_getTransactionReceipt", `{"id":1,"result":{"blockHash":"0x1","blockNumber":"0x65","logs":[{"blockNumber":"0x1"}]}}`, 101, false, true},
		{"eth_getTransactionByHash", `{"id":1,"result":{"blockNumber":null}}`, 0, false, false},
		{"eth_getTransactionReceipt", `{"id":1,"result":null}`, 0, false, false},
		{"eth_getLogs", `{"id":1,"result":[{"blockNumber":"0x1","data":"0x"},{"blockNumber" : "0x66","logIndex":"0x0"}]}`, 102, false, true},
		{"eth_getLogs", `{"id":1,"result":[]}`, 0, false, false},
		{"eth_getLogs", `{"id":1,"error":{"message":"no blockNumber"}}`, 0, false, false},
		{"eth_getLogs", `{"id":1,"result":[{"blockNumber`, 0, false, false},
		{"eth_getLogs", `{"id":1,"result":[{"blockNumber"`, 0, false, false},
		{"eth_getLogs", `{"id":1,"result":[{"blockNumber":`, 0, false, false},
		{"eth_getLogs", `{"id":1,"result":[{"blockNumber":"0x6`, 0, false, false},
		{"eth_getBlockReceipts", `{"id":1,"result":[{"blockNumber":"0x66"}]}`, 102, false, true},
		{"eth_call", `{"id":1,"result":"0x1"}`, 0, false, false},
	} {
		number, byTag, ok := shown([]byte(c.method), []byte(c.body))
		if number != c.number || ok != c.ok || ok && byTag != c.byTag {
			t.Errorf("%s %s: %d %v %v", c.method, c.body, number, byTag, ok)
		}
	}
}

// Both ends of a range may be tags, in any order; what a client was told of takes
// their place, and the range is as wide as it was.
func TestReplaceTags(t *testing.T) {
	const head = `{"id":1,"method":"eth_getLogs","params":[`
	for _, c := range []struct {
		params, want string
		need         jsonrpc.Need
	}{
		{`{"fromBlock":"finalized","toBlock":"latest"}`, `{"fromBlock":"0x60","toBlock":"latest"}`, jsonrpc.Need{Named: true, Lowest: 96, Highest: 96, Head: true}},
		{`{"fromBlock":"0x1","toBlock":"finalized"}`, `{"fromBlock":"0x1","toBlock":"0x60"}`, jsonrpc.Need{Named: true, Lowest: 1, Highest: 96}},
		{`{"fromBlock":"finalized","toBlock":"finalized"}`, `{"fromBlock":"0x60","toBlock":"0x60"}`, jsonrpc.Need{Named: true, Lowest: 96, Highest: 96}},
		{`{"toBlock":"finalized","fromBlock":"finalized","topics":[]}`, `{"toBlock":"0x60","fromBlock":"0x60","topics":[]}`, jsonrpc.Need{Named: true, Lowest: 96, Highest: 96}},
		{`{"fromBlock":"finalized","toBlock":"safe"}`, `{"fromBlock":"0x60","toBlock":"safe"}`, jsonrpc.Need{Named: true, Lowest: 96, Highest: 96}},
	} {
		l := &Listener{}
		l.heads.tell([]byte(`"finalized"`), 96)
		j := &job{}
		j.request.Body = []byte(head + c.params + `]}`)
		j.decode()
		need := jsonrpc.NeedOf(&j.calls[0])
		l.replaceTags(j, &need)
		if got := string(j.request.Body); got != head+c.want+`]}` {
			t.Errorf("%s became %s", c.params, got)
		}
		tag := string(need.Tags[0]) + string(need.Tags[1])
		if tag != "" != strings.Contains(c.want, "safe") {
			t.Errorf("%s: %s is left", c.params, tag)
		}
		if need.Tags = [2][]byte{}; need.Named != c.need.Named || need.Lowest != c.need.Lowest || need.Highest != c.need.Highest || need.Head != c.need.Head {
			t.Errorf("%s: %+v", c.params, need)
		}
	}
}

func TestReplaced(t *testing.T) {
	body := []byte(`{"params":["0x1","safe"]}`)
	part := jsonrpc.Element(jsonrpc.Member(body, "params"), 1)
	if got := string(replaced(body, part, appendQuantity(nil, 255))); got != `{"params":["0x1","0xff"]}` {
		t.Fatal(got)
	}
}

func TestHeads(t *testing.T) {
	var h heads
	if _, ok := h.tagged([]byte(`"safe"`)); ok {
		t.Fatal("nothing has been told")
	}
	h.tell([]byte(`"safe"`), 10)
	h.tell([]byte(`"safe"`), 9)
	if n, ok := h.tagged([]byte(`"safe"`)); n != 10 || !ok {
		t.Fatal(n, ok)
	}
	if _, ok := h.tagged([]byte(`"latest"`)); ok {
		t.Fatal("latest is not replaced")
	}
}
