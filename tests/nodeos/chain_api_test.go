//go:build nodeos

package nodeos

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// exchange sends a request as it is and returns the answer.
func exchange(t *testing.T, addr, request string) (status string, header http.Header, body []byte) {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, strings.Replace(request, "HOST", addr, 1)); err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%q at %s: %v", request, addr, err)
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.Status, res.Header, body
}

// Odd bodies and methods get the same answer through the port as from a node
// itself: status, body, and the headers that are the node's.
func TestChainAPIAnswersAsANode(t *testing.T) {
	f := NewFleet(t, 1)
	node := f.Relays[0]
	node.Start(t)
	g := f.StartChainAPI(t, BuildGateway(t))
	node.WaitBlock(t, 25)
	info, err := node.Info()
	if err != nil {
		t.Fatal(err)
	}
	g.WaitAPIs(t, node)
	var requests []string
	add := func(method, path, body string) {
		requests = append(requests, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: HOST\r\nContent-Length: %d\r\n\r\n%s", method, path, len(body), body))
	}
	for _, value := range []string{
		`5`, `"5"`, `0005`, `"0005"`, `"+5"`, `+5`, `-1`, `"-1"`, `-0`, `0`, `5.0`, `5e0`, `"5e0"`, `true`, `null`, `[5]`, `{"n":5}`, `""`, `" 5"`,
		`4294967301`, `18446744073709551616`, `"18446744073709551616"`, `"\u0035"`, `1000000`, `"` + info.HeadID[:40] + `"`, `"zz"`,
		`"` + strings.ToUpper(info.HeadID) + `"`, `"00000005` + info.HeadID[8:] + `"`, `"` + strings.Repeat("ab", 40) + `"`,
	} {
		add("POST", "/v1/chain/get_block", `{"block_num_or_id":`+value+`}`)
		add("POST", "/v1/chain/get_block_header_state", `{"block_num_or_id":`+value+`}`)
		add("POST", "/v1/chain/get_block_info", `{"block_num":`+value+`}`)
	}
	for _, body := range []string{
		``, ` `, `{}`, `null`, `5`, `"5"`, `[]`, `{"block_num_or_id":5`, `{"block_num_or_id":5,}`, `{"block_num_or_id":5}x`, ` {"block_num_or_id":5} `,
		`{"block_num_or_id":5}{"block_num_or_id":6}`, `{"block_num_or_id":5,"block_num_or_id":6}`, `{'block_num_or_id':5}`, `{block_num_or_id:5}`,
		`{"block_num_or_id":5,"x":{"block_num_or_id":6}}`, `{"Block_num_or_id":5}`, `{"block_num":5}`, `{"block_num_or_id" 5}`, "\ufeff{\"block_num_or_id\":5}",
		`/**/{"block_num_or_id":5}`, `{"block_num_or_id":5,"x":NaN}`, `{"block_num_or_id":5,"x":1.5}`,
	} {
		add("POST", "/v1/chain/get_block", body)
	}
	for _, method := range []string{"GET", "PUT", "DELETE", "PATCH", "FOO"} {
		add(method, "/v1/chain/get_block", `{"block_num_or_id":5}`)
	}
	for _, body := range []string{``, `{}`, ` `} {
		add("POST", "/v1/chain/get_activated_protocol_features", body)
		add("POST", "/v1/chain/get_account", body)
	}
	add("POST", "/v1/chain/get_account", `{"account_name":"nobody"}`)
	add("POST", "/v1/chain/get_info", `{"x":1}`)
	add("POST", "/v1/chain/push_transaction", `{"signatures":[]}`)
	add("POST", "/v1/chain/send_transaction", `garbage`)
	add("POST", "/v1/chain/compute_transaction", `{}`)
	add("OPTIONS", "/v1/chain/get_info", ``)
	add("GET", "/v1/chain/../chain/get_info", ``)
	for _, request := range requests {
		what := strings.ReplaceAll(request[:strings.Index(request, " HTTP")]+request[strings.Index(request, "\r\n\r\n")+3:], "\n", " ")
		status, header, body := exchange(t, node.HTTP, request)
		status2, header2, body2 := exchange(t, g.API, request)
		if status != status2 || !bytes.Equal(body, body2) {
			t.Errorf("%.100s\nfrom the node:    %s %.300s\nthrough the port: %s %.300s", what, status, body, status2, body2)
		}
		if header.Get("Content-Type") != header2.Get("Content-Type") {
			t.Errorf("%.100s: the headers are %v and %v", what, header, header2)
		}
	}
}

// cleos finds the fleet as good as a node, while the nodes are killed in turn.
func TestCleos(t *testing.T) {
	f := NewFleet(t, 2)
	g := f.StartChainAPI(t, BuildGateway(t))
	for _, r := range f.Relays {
		r.Start(t)
	}
	f.SetTable(t)
	name, body := f.NewAccount(t)
	if err := f.Producer.call("/v1/chain/push_transaction", json.RawMessage(body), &struct{}{}); err != nil {
		t.Fatal(err)
	}
	info, err := f.Producer.Info()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range f.Relays {
		r.WaitBlock(t, info.Head+2)
	}
	g.WaitAPIs(t, f.Relays...)
	for round := range 4 {
		victim := f.Relays[round%2]
		victim.Kill(t)
		for _, args := range [][]string{
			{"get", "info"}, {"get", "block", "5"}, {"get", "block", info.HeadID}, {"get", "account", name}, {"get", "table", "eosio", "eosio", "rows"},
		} {
			if out, err := f.Cleos(g.API, args...); err != nil {
				t.Errorf("cleos %v without %s: %v\n%s", args, victim.Name, err, out)
			}
		}
		victim.Start(t)
		g.WaitAPIs(t, f.Relays...)
	}
}
