// Command mocknodeos is a nodeos HTTP API for benchmarks: it answers at once, and
// costs little. get_block has a body of the given size.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"

	"github.com/valyala/fasthttp"
)

func main() {
	address := flag.String("addr", "127.0.0.1:8888", "where to listen")
	size := flag.Int("size", 1<<20, "bytes of a get_block answer")
	chain := flag.String("chain", "c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1c1", "chain id")
	flag.Parse()
	info := fmt.Appendf(nil, `{"result":1,"server_version":"0","chain_id":%q,"head_block_num":1000,"last_irreversible_block_num":900,"head_block_id":"00","earliest_available_block_num":1,"server_version_string":"v1"}`, *chain)
	blockInfo := []byte(`{"result":1,"block_num":100,"ref_block_num":100,"id":"0000006400000000000000000000000000000000000000000000000000000000","timestamp":"2025-01-01T00:00:00.000","producer":"eosio","confirmed":0}`)
	block := append(append([]byte(`{"result":1,"transactions":"`), bytes.Repeat([]byte("x"), *size)...), `"}`...)
	server := &fasthttp.Server{
		NoDefaultDate: true,
		Handler: func(ctx *fasthttp.RequestCtx) {
			ctx.SetContentType("application/json")
			switch string(ctx.Path()) {
			case "/v1/chain/get_info":
				ctx.SetBody(info)
			case "/v1/chain/get_block":
				ctx.Response.SetBodyRaw(block)
			case "/v1/node/get_supported_apis":
				ctx.SetStatusCode(404)
			default:
				ctx.SetBody(blockInfo)
			}
		},
	}
	log.Fatal(server.ListenAndServe(*address))
}
