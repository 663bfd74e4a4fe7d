package chainapi

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"

	"flotilla/gateway/ship"
)

const (
	// maxProbe bounds the body of a probe's answer.
	maxProbe = 1 << 20
	// listEvery is how often a live node is asked for its endpoints.
	listEvery = time.Minute

	describePath = "/v1/archive/describe"
)

// prober asks one upstream API how it is. Its connections are its own, and it
// takes no slots.
type prober struct {
	p      *Port
	known  *known
	frozen bool
	client *client
	// listed is when the endpoints were asked for; zero before that.
	listed time.Time
}

// tell has the owner run event, unless the API was removed meanwhile.
func (m *prober) tell(ctx context.Context, event func(*owner)) {
	m.p.do(func(o *owner) {
		if ctx.Err() == nil {
			event(o)
		}
	})
}

func (m *prober) run(ctx context.Context) {
	defer m.client.close()
	for {
		from := time.Now()
		var err error
		if m.frozen {
			err = m.archive(ctx)
		} else {
			err = m.live(ctx)
		}
		if err != nil {
			m.tell(ctx, func(o *owner) { o.bad(m.known, err) })
		}
		rest := m.p.Config().Probe - time.Since(from)
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(rest, 0)):
		}
	}
}

// ask makes one request and returns the body of its answer.
func (m *prober) ask(ctx context.Context, method, path string, body []byte) (status int, answer []byte, err error) {
	s := m.p.settings.Load()
	timeout := s.api.UpstreamTimeout
	q := call{
		method: []byte(method), path: []byte(path), body: body,
		// A second try would make two probes of one.
		single:  true,
		connect: min(s.ConnectTimeout(), timeout), head: timeout, until: time.Now().Add(timeout),
	}
	if body != nil {
		q.contentType = []byte("application/json")
	}
	// A probe must not hold up the end of the process.
	q.gone = ctx
	r, fail := m.client.do(&q)
	if fail != nil {
		return 0, nil, fail
	}
	wire := r.wire
	defer r.done()
	defer context.AfterFunc(ctx, func() { wire.Close() })()
	status = r.head.StatusCode()
	r.wire.gap = max(time.Until(q.until), time.Millisecond)
	answer, err = io.ReadAll(io.LimitReader((*bodyReader)(r), maxProbe+1))
	switch {
	case err != nil:
		return status, nil, err
	case len(answer) > maxProbe:
		return status, nil, fmt.Errorf("the answer to %s is over %d bytes", path, maxProbe)
	}
	return status, answer, nil
}

// bodyReader is the body of an answer as an io.Reader.
type bodyReader response

func (b *bodyReader) Read(p []byte) (int, error) { return (*response)(b).read(p) }

// info is the part of get_info that counts.
type info struct {
	ChainID  string  `json:"chain_id"`
	Head     uint32  `json:"head_block_num"`
	LIB      uint32  `json:"last_irreversible_block_num"`
	Earliest *uint32 `json:"earliest_available_block_num"`
	Version  string  `json:"server_version_string"`
}

// live is one probe of a live node.
func (m *prober) live(ctx context.Context) error {
	status, body, err := m.ask(ctx, "POST", infoPath, nil)
	if err != nil {
		return err
	}
	var got info
	if status != 200 {
		return fmt.Errorf("get_info gave the status %d", status)
	}
	if err := json.Unmarshal(body, &got); err != nil {
		return fmt.Errorf("get_info cannot be read: %w", err)
	}
	chain, err := parseID(got.ChainID)
	if err != nil || got.Head == 0 {
		return errors.New("get_info lacks a chain_id or a head_block_num")
	}
	// A node of which nothing is known yet is not let in before its endpoints
	// are; of one that was there before the old ones are good enough for now.
	news := m.listed.IsZero()
	if news {
		m.list(ctx)
	}
	back := false
	m.tell(ctx, func(o *owner) {
		back = !m.known.Good
		m.known.Head, m.known.LIB, m.known.Version, m.known.Earliest = got.Head, min(got.LIB, got.Head), got.Version, 0
		if got.Earliest != nil {
			m.known.Earliest = max(*got.Earliest, 1)
		}
		o.dirty = true
		o.reported(m.known, chain)
		o.good(m.known)
	})
	if !news && (back || time.Since(m.listed) >= listEvery) {
		m.list(ctx)
	}
	return nil
}

// list asks for the endpoints of a live node. One that does not tell is taken to
// serve all of them.
func (m *prober) list(ctx context.Context) {
	m.listed = time.Now()
	var got struct {
		Apis []string `json:"apis"`
	}
	status, body, err := m.ask(ctx, "GET", supportedPath, nil)
	known := err == nil && status == 200 && json.Unmarshal(body, &got) == nil && got.Apis != nil
	m.tell(ctx, func(o *owner) {
		o.dirty = true
		m.known.Paths = nil
		if known {
			m.known.Paths = pathSet(got.Apis)
		}
	})
}

func pathSet(list []string) map[string]struct{} {
	set := make(map[string]struct{}, len(list))
	for _, p := range list {
		set[p] = struct{}{}
	}
	return set
}

// description is what an archive says of itself.
type description struct {
	ChainID string `json:"chain_id"`
	Last    struct {
		Num uint32 `json:"num"`
		ID  string `json:"id"`
	} `json:"last"`
	Blocks struct {
		Begin uint32 `json:"begin"`
		End   uint32 `json:"end"`
	} `json:"blocks"`
	Apis        []string        `json:"apis"`
	GetBlock    json.RawMessage `json:"get_block"`
	MaxInFlight int             `json:"max_in_flight"`
}

// archive is one probe of a frozen range server.
func (m *prober) archive(ctx context.Context) error {
	status, body, err := m.ask(ctx, "GET", describePath, nil)
	if err != nil {
		return err
	}
	var got description
	if status != 200 {
		return fmt.Errorf("%s gave the status %d", describePath, status)
	}
	if err := json.Unmarshal(body, &got); err != nil {
		return fmt.Errorf("%s cannot be read: %w", describePath, err)
	}
	chain, err := parseID(got.ChainID)
	id, err2 := parseID(got.Last.ID)
	if err != nil || err2 != nil || got.Last.Num == 0 {
		return fmt.Errorf("%s lacks a chain_id or a last block", describePath)
	}
	var block ship.Pos
	var ask bool
	m.tell(ctx, func(o *owner) {
		k := m.known
		k.Described, o.dirty = true, true
		k.Blocks, k.last = ship.Range{Begin: got.Blocks.Begin, End: got.Blocks.End}, ship.Pos{Num: got.Last.Num, ID: id}
		k.GetBlock = ""
		if err := json.Unmarshal(got.GetBlock, &k.GetBlock); err != nil {
			k.GetBlock = string(got.GetBlock)
		}
		k.Paths = pathSet(got.Apis)
		k.limit = got.MaxInFlight
		o.limit(k)
		o.reported(k, chain)
		o.good(k)
		block, ask = k.toProve()
	})
	if ask {
		m.prove(ctx, block)
	}
	return nil
}

// prove asks an archive for the id of a block. No answer proves nothing.
func (m *prober) prove(ctx context.Context, block ship.Pos) {
	body := strconv.AppendUint([]byte(`{"block_num":`), uint64(block.Num), 10)
	status, answer, err := m.ask(ctx, "POST", blockInfoPath, append(body, '}'))
	if err != nil || status != 200 && status != 400 {
		return
	}
	var got struct {
		ID string `json:"id"`
	}
	right := false
	if status == 200 && json.Unmarshal(answer, &got) == nil {
		id, err := parseID(got.ID)
		right = err == nil && id == block.ID
	}
	m.tell(ctx, func(o *owner) { o.proved(m.known, block, right) })
}

func parseID(text string) (id ship.ID, err error) {
	if len(text) != 2*len(id) {
		return id, errors.New("an id has 64 hex digits")
	}
	_, err = hex.Decode(id[:], []byte(text))
	return id, err
}
