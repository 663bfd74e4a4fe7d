// Command mockevm is an EVM node for benchmarks: it answers calls and batches at
// once, and costs little. Its head never moves.
package main

import (
	"bytes"
	"flag"
	"log"

	"flotilla/gateway/evm/jsonrpc"

	"github.com/valyala/fasthttp"
)

// block is the newest one, with the members of a header in the order of geth.
const block = `{"baseFeePerGas":"0x7","difficulty":"0x0","extraData":"0x","gasLimit":"0x1c9c380","gasUsed":"0x5208",` +
	`"hash":"0x6e1f7d6e5d3c0b8d1b6f9a2c4e8f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b","miner":"0x0000000000000000000000000000000000000000",` +
	`"mixHash":"0x0000000000000000000000000000000000000000000000000000000000000000","nonce":"0x0000000000000000","number":"0x64",` +
	`"parentHash":"0x5e1f7d6e5d3c0b8d1b6f9a2c4e8f0a1b2c3d4e5f60718293a4b5c6d7e8f90a1b","size":"0x220","timestamp":"0x65a1b2c3",` +
	`"transactions":["0xf2ee15ea639b73fa3db9b34a245bdfa015c260c598b211bf05a1ecc4b3e3b4f2"],"uncles":[],"withdrawals":[]}`

func main() {
	address := flag.String("addr", "127.0.0.1:8545", "where to listen")
	size := flag.Int("size", 2, "bytes of the code that eth_getCode answers")
	flag.Parse()
	n := node{code: append(append([]byte(`"0x`), bytes.Repeat([]byte("6"), *size)...), '"')}
	server := &fasthttp.Server{NoDefaultDate: true, Handler: n.serve}
	log.Fatal(server.ListenAndServe(*address))
}

type node struct{ code []byte }

func (n *node) serve(ctx *fasthttp.RequestCtx) {
	var room [16]jsonrpc.Call
	calls, batch, err := jsonrpc.Read(ctx.PostBody(), room[:0])
	if err != nil {
		ctx.Error("this is no call", fasthttp.StatusBadRequest)
		return
	}
	ctx.SetContentType("application/json")
	out := ctx.Response.SwapBody(nil)[:0]
	if batch {
		out = append(out, '[')
	}
	for i := range calls {
		if i > 0 {
			out = append(out, ',')
		}
		out = n.answer(out, &calls[i])
	}
	if batch {
		out = append(out, ']')
	}
	ctx.Response.SwapBody(out)
}

func (n *node) answer(out []byte, c *jsonrpc.Call) []byte {
	out = append(append(append(out, `{"jsonrpc":"2.0","id":`...), c.ID...), `,"result":`...)
	switch string(c.Method) {
	case "eth_chainId":
		out = append(out, `"0x539"`...)
	case "web3_clientVersion":
		out = append(out, `"mockevm"`...)
	case "eth_getBlockByNumber":
		out = append(out, block...)
	case "eth_getCode":
		out = append(out, n.code...)
	default:
		out = append(out, `"0x64"`...)
	}
	return append(out, '}')
}
