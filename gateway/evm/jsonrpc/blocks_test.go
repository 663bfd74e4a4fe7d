package jsonrpc

import "testing"

func TestNeedOf(t *testing.T) {
	named := func(low, high uint64) Need { return Need{Named: true, Lowest: low, Highest: high} }
	state := func(n Need) Need { n.State = true; return n }
	head := Need{Head: true}
	for _, c := range []struct {
		method, params string
		want           Need
		tag            string
	}{
		{"eth_chainId", `[]`, Need{}, ""},
		{"eth_sendRawTransaction", `["0x02"]`, Need{}, ""},
		{"eth_blockNumber", `[]`, head, ""},
		{"eth_getBlockByNumber", `["0x64",false]`, named(100, 100), ""},
		{"eth_getBlockByNumber", `["latest",false]`, head, ""},
		{"eth_getBlockByNumber", `["pending",false]`, head, ""},
		{"eth_getBlockByNumber", `["earliest",false]`, named(0, 0), ""},
		{"eth_getBlockByNumber", `["finalized",true]`, Need{}, `"finalized"`},
		{"eth_getBlockByNumber", `[]`, head, ""},
		{"eth_getBlockByNumber", ``, head, ""},
		{"eth_getBlockByNumber", `["0xzz"]`, head, ""},
		{"eth_getBlockByNumber", `{"a":1}`, head, ""},
		{"eth_getBlockByHash", `["0xab"]`, head, ""},
		{"eth_getTransactionReceipt", `["0xab"]`, head, ""},
		{"some_unknown", `["0x1"]`, head, ""},
		{"eth_getBalance", `["0xf39F","0x10"]`, state(named(16, 16)), ""},
		{"eth_getBalance", `["0xf39F"]`, state(head), ""},
		{"eth_getBalance", `["0xf39F",{"blockNumber":"0x10"}]`, state(named(16, 16)), ""},
		{"eth_getBalance", `["0xf39F",{"blockHash":"0xabc","requireCanonical":true}]`, state(head), ""},
		{"eth_getBalance", `["0xf39F","0x1111111111111111111111111111111111111111111111111111111111111111"]`, state(head), ""},
		{"eth_call", `[{"to":"0x1","data":"0x"},"safe"]`, state(Need{}), `"safe"`},
		{"eth_getBalance", `["0x1",{"blockNumber":"finalized"}]`, state(Need{}), `"finalized"`},
		{"eth_getLogs", `[{"fromBlock":"0x1","toBlock":"finalized"}]`, named(1, 1), `"finalized"`},
		{"eth_getLogs", `[{"fromBlock":"finalized","toBlock":"latest"}]`, head, `"finalized"`},
		{"eth_getLogs", `[{"fromBlock":"finalized"}]`, head, `"finalized"`},
		{"eth_getLogs", `[{"toBlock":"safe","fromBlock":"finalized"}]`, Need{}, `"safe""finalized"`},
		{"eth_getStorageAt", `["0x1","0x0","0x5"]`, state(named(5, 5)), ""},
		{"eth_feeHistory", `["0x5","0x9",[]]`, named(9, 9), ""},
		{"eth_getLogs", `[{"fromBlock":"0x1","toBlock":"0x2"}]`, named(1, 2), ""},
		{"eth_getLogs", `[{"fromBlock":"0x9","toBlock":"0x2"}]`, named(2, 9), ""},
		{"eth_getLogs", `[{"fromBlock":"0x1"}]`, Need{Named: true, Lowest: 1, Highest: 1, Head: true}, ""},
		{"eth_getLogs", `[{"fromBlock":"0x1","toBlock":"latest"}]`, Need{Named: true, Lowest: 1, Highest: 1, Head: true}, ""},
		{"eth_getLogs", `[{"blockHash":"0xab"}]`, head, ""},
		{"eth_getLogs", `[{}]`, head, ""},
		{"eth_getLogs", `[]`, head, ""},
	} {
		got := NeedOf(&Call{Method: []byte(c.method), Params: []byte(c.params)})
		tag := string(got.Tags[0]) + string(got.Tags[1])
		if got.Latest() != (got.Head || tag != "") {
			t.Errorf("%s %s: latest %v", c.method, c.params, got.Latest())
		}
		if got.Named != c.want.Named || got.Lowest != c.want.Lowest || got.Highest != c.want.Highest || got.Head != c.want.Head || got.State != c.want.State || tag != c.tag {
			t.Errorf("%s %s needs %+v %s, want %+v %s", c.method, c.params, got, tag, c.want, c.tag)
		}
	}
}

func TestKindOf(t *testing.T) {
	for body, want := range map[string]Kind{
		`{"jsonrpc":"2.0","id":1,"result":"0x1"}`:           Result,
		`{"jsonrpc":"2.0","id":1,"result":{"cut`:            Result,
		`{"id":{"a":[1]},"result":null}`:                    Null,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1}}`:       Failure,
		`{"jsonrpc":"2.0","id":1,"error":null,"result":[]}`: Result,
		` {"error" : {"message":"x"},"id":null}`:            Failure,
		`[{"result":1}]`:                                    Other, `{}`: Other, ``: Other, `<html>`: Other, `{"id":1}`: Other, `{"id`: Other, `{"id"`: Other, `{"id":`: Other,
	} {
		if got := KindOf([]byte(body)); got != want {
			t.Errorf("%s is %d, want %d", body, got, want)
		}
	}
}

func FuzzNeedOf(f *testing.F) {
	f.Add("eth_getLogs", `[{"fromBlock":"0x1"}]`)
	f.Add("eth_call", `[{},{"blockNumber":"0x1"}]`)
	f.Fuzz(func(t *testing.T, method, params string) {
		n := NeedOf(&Call{Method: []byte(method), Params: []byte(params)})
		if n.Lowest > n.Highest || !n.Named && n.Highest != 0 {
			t.Fatalf("%+v", n)
		}
		KindOf([]byte(params))
	})
}

func BenchmarkNeedOf(b *testing.B) {
	for name, params := range map[string]string{
		"eth_getBalance": `["0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266","latest"]`,
		"eth_getLogs":    `[{"address":"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266","fromBlock":"0x112a880","toBlock":"0x112a8e4","topics":[null]}]`,
		"eth_call":       `[{"to":"0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266","data":"0x70a08231"},{"blockNumber":"0x1"}]`,
	} {
		b.Run(name, func(b *testing.B) {
			c := &Call{Method: []byte(name), Params: []byte(params)}
			b.ReportAllocs()
			for b.Loop() {
				if n := NeedOf(c); !n.Named && !n.Latest() {
					b.Fatal("nothing was read")
				}
			}
		})
	}
}

// Reading a usual body allocates nothing.
func TestReadingAllocatesNothing(t *testing.T) {
	body := []byte(`[{"jsonrpc":"2.0","id":1,"method":"eth_blockNumber","params":[]},` +
		`{"jsonrpc":"2.0","id":2,"method":"eth_getLogs","params":[{"fromBlock":"0x1","toBlock":"0x2"}]},` +
		`{"jsonrpc":"2.0","id":3,"method":"eth_call","params":[{"to":"0x1"},"latest"]}]`)
	calls := make([]Call, 0, 8)
	allocs := testing.AllocsPerRun(100, func() {
		calls, _, _ = Read(body, calls[:0])
		for i := range calls {
			NeedOf(&calls[i])
		}
	})
	if allocs != 0 {
		t.Fatalf("%v allocations", allocs)
	}
}
