// Package chainapi tests the whole product with a chain API in front of
// simulated nodes, in a bubble of fake time and memory (testing/synctest).
package chainapi

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
	"testing/synctest"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
	"flotilla/tests/scene"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// port is where the chain API listens.
const port = "gateway:18888"

// world is a scene with a chain API.
type world struct {
	*scene.World
	apis []*simulator.API
}

// inBubble runs a test over a chain with the head 1000 and the LIB 900, whose
// archives and nodes are all of one fleet.
func inBubble(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	network := func() gateway.Network { return simulator.NewNetwork() }
	scene.InBubble(t, simulator.ChainOptions{Head: 1000, LIBLag: 100}, network, func(t *testing.T, inner *scene.World) {
		w := &world{World: inner}
		id := [32]byte(w.Chain.ID())
		w.Config.ChainID = &id
		w.Config.Topology = config.TopologyAuto
		w.Config.ChainAPI = &config.ChainAPI{
			Address: port, Allow: []string{"block", "info", "state", "exec", "push"}, BlockSource: "frozen_first",
			MaxBody: 2 << 20, MaxConnections: 1024, MaxInFlight: 256, MaxInFlightPerUpstream: 64,
			UpstreamQueue: time.Second, UpstreamTimeout: 10 * time.Second, RequestDeadline: 30 * time.Second,
			MaxAttempts: 3, Probe: time.Second,
		}
		test(t, w)
	})
}

// node starts a node with both of its ports; change may be nil.
func (w *world) node(o simulator.APIOptions, change func(*config.Server)) *simulator.API {
	w.T.Helper()
	a := w.httpOnly(o)
	w.Node(simulator.Options{First: o.First, End: o.End}, func(s *config.Server) {
		s.APIEndpoint = a.Addr()
		if o.End != 0 {
			s.Role, s.Range = config.Frozen, &config.Range{Begin: max(o.First, 1), End: o.End}
		}
		if change != nil {
			change(s)
		}
	})
	return a
}

// httpOnly starts an API without telling the configuration.
func (w *world) httpOnly(o simulator.APIOptions) *simulator.API {
	w.T.Helper()
	o.Name = fmt.Sprintf("n%d", len(w.apis))
	o.Address, o.Listen = fmt.Sprintf("api-%d:8888", len(w.apis)), w.Net.Listen
	a, err := simulator.StartAPI(w.Chain, o)
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(a.Close)
	w.apis = append(w.apis, a)
	return a
}

func priority(p uint32) func(*config.Server) { return func(s *config.Server) { s.Priority = p } }

// client is an HTTP client of the gateway with connections of its own.
func (w *world) client() *http.Client {
	transport := &http.Transport{DialContext: w.Net.DialContext, DisableCompression: true}
	w.T.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// answer is an answer of the gateway.
type answer struct {
	status int
	body   string
	header http.Header
	took   time.Duration
}

// node is the name of the node that wrote the answer.
func (a answer) node() string {
	var got struct{ Node string }
	if json.Unmarshal([]byte(a.body), &got) != nil {
		return ""
	}
	return got.Node
}

func (w *world) post(c *http.Client, path, body string) (answer, error) {
	from := time.Now()
	r, err := http.NewRequestWithContext(w.Ctx, http.MethodPost, "http://"+port+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	r.Header.Set("User-Agent", "a client")
	res, err := c.Do(r)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, string(text), res.Header, time.Since(from)}, err
}

// ask is post that fails the test for want of an answer.
func (w *world) ask(c *http.Client, path, body string) answer {
	w.T.Helper()
	a, err := w.post(c, path, body)
	if err != nil {
		w.T.Fatalf("%s %s: %v", path, body, err)
	}
	return a
}

const (
	getInfo    = "/v1/chain/get_info"
	getBlock   = "/v1/chain/get_block"
	rawBlock   = "/v1/chain/get_raw_block"
	getAccount = "/v1/chain/get_account"
	sendTx     = "/v1/chain/send_transaction"
	compute    = "/v1/chain/compute_transaction"
)

func byNum(n uint32) string { return fmt.Sprintf(`{"block_num_or_id":%d}`, n) }

// byID names block n of the chain by its id.
func (w *world) byID(n uint32) string {
	return fmt.Sprintf(`{"block_num_or_id":"%s"}`, w.Chain.Pos(n).ID)
}

// isBlock fails the test unless an answer is block n.
func (w *world) isBlock(a answer, n uint32) {
	w.T.Helper()
	if id := w.Chain.Pos(n).ID.String(); a.status != 200 || !strings.Contains(a.body, id) {
		w.T.Fatalf("instead of block %d came %d %s", n, a.status, a.body)
	}
}

// reason is the text of a 503 of the gateway itself.
func (a answer) reason() string {
	var got struct {
		Error struct{ Name, What string }
	}
	if json.Unmarshal([]byte(a.body), &got) != nil || got.Error.Name != "Busy" {
		return ""
	}
	return got.Error.What
}

// raw opens a connection to the port.
func (w *world) raw() (net.Conn, *bufio.Reader) {
	w.T.Helper()
	c, err := w.Net.DialContext(w.Ctx, "tcp", port)
	if err != nil {
		w.T.Fatal(err)
	}
	w.T.Cleanup(func() { c.Close() })
	return c, bufio.NewReader(c)
}

// closesAfter fails the test unless the gateway closes a connection after about
// that time without another byte.
func (w *world) closesAfter(c net.Conn, r *bufio.Reader, want time.Duration) {
	w.T.Helper()
	from := time.Now()
	if err := c.SetReadDeadline(from.Add(time.Hour)); err != nil {
		w.T.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if len(b) > 0 || err != nil && time.Since(from) >= time.Hour {
		w.T.Fatalf("instead of a close came %q, %v", b, err)
	}
	if took := time.Since(from); took < want-time.Second || took > want+time.Second {
		w.T.Errorf("it was closed after %v, not %v", took, want)
	}
}

// start runs the gateway until the test ends, and waits until the nodes are
// known.
func (w *world) start() (put func(*config.Config), stop func()) {
	w.T.Helper()
	reloads := make(chan gateway.Reload)
	stop = w.Run(w.whole(w.Config), reloads)
	time.Sleep(3 * time.Second)
	synctest.Wait()
	return func(cfg *config.Config) {
		reloads <- gateway.Reload{Config: cfg, Why: "the test"}
		time.Sleep(3 * time.Second)
		synctest.Wait()
	}, stop
}

func (w *world) whole(l *config.Listener) *config.Config {
	return &config.Config{Listeners: []*config.Listener{l}, ShutdownGrace: 5 * time.Second}
}

// changed is the configuration with another chain API.
func (w *world) changed(change func(*config.Listener, *config.ChainAPI)) *config.Listener {
	l, a := *w.Config, *w.Config.ChainAPI
	l.ChainAPI = &a
	change(&l, &a)
	// A configuration that is the same is not put in force.
	l.MaxConnections++
	return &l
}

// readAnswer reads one answer from a connection.
func readAnswer(r *bufio.Reader, method string) (answer, error) {
	req := &http.Request{Method: method}
	res, err := http.ReadResponse(r, req)
	if err != nil {
		return answer{}, err
	}
	defer res.Body.Close()
	var text bytes.Buffer
	_, err = io.Copy(&text, res.Body)
	return answer{status: res.StatusCode, body: text.String(), header: res.Header}, err
}

// nothing is a change that is none.
func nothing(*config.Listener, *config.ChainAPI) {}
