package simulator

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"flotilla/gateway/ship"
)

// APIOptions describe an API. The zero value is a node that has everything.
type APIOptions struct {
	// Name is in every answer, under "node".
	Name string
	// Address and Listen are as in Options.
	Address string
	Listen  func(address string) (net.Listener, error)
	// First is the first block that the node has; 0 is 1.
	First uint32
	// End makes an archive: it has no block from this one on.
	End uint32
	// NoEarliest leaves earliest_available_block_num out of get_info, as nodes
	// before Leap do.
	NoEarliest bool
	// Apis are the endpoints that the node lists; nil is those that it has.
	Apis []string
	// MaxInFlight is what an archive describes; 0 leaves it out.
	MaxInFlight int
}

// API is a simulated nodeos HTTP API over a chain, or that of an archive. It
// serves the block endpoints and get_info as nodeos does, and answers every
// other chain endpoint with what it was sent.
type API struct {
	chain *Chain
	o     APIOptions
	addr  string

	mu       sync.Mutex
	server   *http.Server
	done     chan struct{}
	requests []APIRequest
	answer   func(APIRequest) *APIAnswer
	lag      uint32
}

// APIRequest is a request as the API got it.
type APIRequest struct {
	Method, Path string
	Header       http.Header
	Body         []byte
}

// Client reports whether a client's request was forwarded: the gateway's own
// name nobody.
func (r APIRequest) Client() bool { return r.Header.Get("User-Agent") != "" }

// APIAnswer is an answer other than the usual one.
type APIAnswer struct {
	Status int
	Header http.Header
	Body   []byte
	// Reset drops the connection instead of answering.
	Reset bool
	// Wait holds the answer back until it is closed; nil does not.
	Wait <-chan struct{}
}

// simulatedPaths are the endpoints of a node, archivePaths those of an archive.
var (
	archivePaths   = []string{"/v1/chain/get_block_header", "/v1/chain/get_block_info", "/v1/chain/get_raw_block"}
	simulatedPaths = append([]string{
		"/v1/chain/get_account", "/v1/chain/get_block", "/v1/chain/get_block_header_state", "/v1/chain/get_info",
		"/v1/chain/get_table_rows", "/v1/chain/compute_transaction", "/v1/chain/push_transaction", "/v1/chain/send_transaction",
		"/v1/chain/send_transaction2", "/v1/node/get_supported_apis",
	}, archivePaths...)
)

// StartAPI serves the API of a node of the chain until Close.
func StartAPI(chain *Chain, o APIOptions) (*API, error) {
	o.Address = cmp.Or(o.Address, "127.0.0.1:0")
	o.First = cmp.Or(o.First, 1)
	if o.Listen == nil {
		o.Listen = func(address string) (net.Listener, error) { return net.Listen("tcp", address) }
	}
	if o.Apis == nil {
		o.Apis = simulatedPaths
		if o.End != 0 {
			o.Apis = archivePaths
		}
	}
	a := &API{chain: chain, o: o}
	l, err := o.Listen(o.Address)
	if err != nil {
		return nil, err
	}
	a.addr = l.Addr().String()
	a.run(l)
	return a, nil
}

// Addr is host:port.
func (a *API) Addr() string { return a.addr }

func (a *API) run(l net.Listener) {
	server := &http.Server{Handler: http.HandlerFunc(a.serve), ErrorLog: log.New(io.Discard, "", 0)}
	done := make(chan struct{})
	a.mu.Lock()
	a.server, a.done = server, done
	a.mu.Unlock()
	go func() {
		defer close(done)
		// It ends with an error that says that Close was called.
		_ = server.Serve(l)
	}()
}

// Close ends the API and its connections.
func (a *API) Close() {
	a.mu.Lock()
	server, done := a.server, a.done
	a.server = nil
	a.mu.Unlock()
	if server == nil {
		return
	}
	// What it closes may be closed already.
	_ = server.Close()
	<-done
}

// Restart serves again after Close, on the same address.
func (a *API) Restart() error {
	l, err := a.o.Listen(a.addr)
	if err != nil {
		return err
	}
	a.run(l)
	return nil
}

// Answer has f decide on each request; a nil answer is the usual one, and a nil
// f decides on none.
func (a *API) Answer(f func(APIRequest) *APIAnswer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answer = f
}

// Lag lets the node stay so many blocks behind the chain.
func (a *API) Lag(blocks uint32) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lag = blocks
}

// Requests are the requests of clients so far.
func (a *API) Requests() (list []APIRequest) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, r := range a.requests {
		if r.Client() {
			list = append(list, r)
		}
	}
	return list
}

// Forget drops the requests recorded so far.
func (a *API) Forget() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.requests = nil
}

func (a *API) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	req := APIRequest{r.Method, r.RequestURI, r.Header, body}
	a.mu.Lock()
	a.requests = append(a.requests, req)
	decide := a.answer
	a.mu.Unlock()
	w.Header().Set("Server", "simulated/"+a.o.Name)
	if decide != nil {
		if own := decide(req); own != nil {
			own.write(w, r)
			return
		}
	}
	status, answer := a.respond(&req)
	(&APIAnswer{Status: status, Body: answer}).write(w, r)
}

func (own *APIAnswer) write(w http.ResponseWriter, r *http.Request) {
	if own.Wait != nil {
		select {
		case <-own.Wait:
		case <-r.Context().Done():
			return
		}
	}
	if own.Reset {
		panic(http.ErrAbortHandler)
	}
	for name, values := range own.Header {
		w.Header()[name] = values
	}
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(own.Body)))
	w.WriteHeader(cmp.Or(own.Status, 200))
	// A client that has left needs no answer.
	_, _ = w.Write(own.Body)
}

// tip is the head and LIB that the node tells of.
func (a *API) tip() (head, lib ship.Pos) {
	a.mu.Lock()
	lag := a.lag
	a.mu.Unlock()
	head, lib = a.chain.Head(), a.chain.LIB()
	if lag > 0 {
		head = a.chain.Pos(max(head.Num, lag+1) - lag)
		lib = a.chain.Pos(min(lib.Num, head.Num))
	}
	return head, lib
}

// UnknownBlock is nodeos's answer to a request for a block that it has not.
const UnknownBlock = `{"code":400,"message":"Unknown Block","error":{"code":3100002,"name":"unknown_block_exception","what":"Unknown block","details":[]}}`

const unknownEndpoint = `{"code":404,"message":"Not Found","error":{"code":0,"name":"exception","what":"unspecified","details":[]}}`

func (a *API) respond(r *APIRequest) (status int, body []byte) {
	switch {
	case a.o.End == 0 && r.Path == "/v1/chain/get_info":
		return 200, a.info()
	case a.o.End == 0 && r.Path == "/v1/node/get_supported_apis":
		return 200, document(map[string]any{"apis": a.o.Apis})
	case a.o.End != 0 && r.Path == "/v1/archive/describe":
		return 200, a.describe()
	}
	name, ok := strings.CutPrefix(r.Path, "/v1/chain/")
	switch {
	case !ok:
		return 404, []byte(unknownEndpoint)
	case strings.HasPrefix(name, "get_block") || name == "get_raw_block":
		return a.block(r)
	case strings.HasPrefix(name, "push_") || strings.HasPrefix(name, "send_"):
		status = 202
	default:
		status = 200
	}
	return status, document(map[string]any{"node": a.o.Name, "path": r.Path, "sent": string(r.Body)})
}

func (a *API) info() []byte {
	head, lib := a.tip()
	m := map[string]any{
		"chain_id": a.chain.ID().String(), "server_version_string": "v1.2.2-simulated", "node": a.o.Name,
		"head_block_num": head.Num, "head_block_id": head.ID.String(),
		"last_irreversible_block_num": lib.Num, "last_irreversible_block_id": lib.ID.String(),
	}
	if !a.o.NoEarliest {
		m["earliest_available_block_num"] = a.o.First
	}
	return document(m)
}

func (a *API) describe() []byte {
	last := a.chain.Pos(a.o.End - 1)
	m := map[string]any{
		"chain_id": a.chain.ID().String(), "last": map[string]any{"num": last.Num, "id": last.ID.String()},
		"blocks": map[string]any{"begin": a.o.First, "end": a.o.End}, "apis": a.o.Apis, "get_block": "off",
	}
	if a.o.MaxInFlight > 0 {
		m["max_in_flight"] = a.o.MaxInFlight
	}
	return document(m)
}

// block answers for a block by number or by id.
func (a *API) block(r *APIRequest) (int, []byte) {
	var q map[string]json.RawMessage
	if err := json.Unmarshal(r.Body, &q); err != nil {
		return 400, []byte(`{"code":400,"message":"Invalid Request"}`)
	}
	text := strings.Trim(string(append(q["block_num_or_id"], q["block_num"]...)), `"`)
	var n uint32
	var want []byte
	if num, err := strconv.ParseUint(text, 10, 64); err == nil {
		n = uint32(num)
	} else if id, err := hex.DecodeString(text); err == nil && len(id) == len(ship.ID{}) {
		n, want = binary.BigEndian.Uint32(id), id
	} else {
		return 500, []byte(`{"code":500,"message":"Invalid block ID"}`)
	}
	end := a.o.End
	if end == 0 {
		head, _ := a.tip()
		end = head.Num + 1
	}
	p := a.chain.Pos(n)
	if n < a.o.First || n >= end || want != nil && !bytes.Equal(want, p.ID[:]) {
		return 400, []byte(UnknownBlock)
	}
	return 200, document(map[string]any{"node": a.o.Name, "block_num": n, "id": p.ID.String()})
}

// document is JSON as nodeos writes it, on one line.
func document(v map[string]any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("simulator: %v", err))
	}
	return b
}
