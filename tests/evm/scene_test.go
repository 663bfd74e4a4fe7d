package evm

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/simulator"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a fleet of simulated nodes with the product in front of it.
type scene struct {
	t     *testing.T
	chain *simulator.EVMChain
	nodes []*simulator.EVMNode
	ports []*httptest.Server
	// addr is that of the listener, management that of its management API, admin
	// that of the admin port.
	addr, management, admin string
	log                     *lines
	reload                  chan gateway.Reload
	client                  *http.Client
}

// lines gathers what is logged.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) has(part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), part)
}

func (l *lines) count(part string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), part)
}

// line reports whether one line has all of the parts.
func (l *lines) line(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for text := range strings.Lines(l.text.String()) {
		if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(text, part) }) {
			return true
		}
	}
	return false
}

// settings are what every listener of these tests has, so that they are quick.
const settings = `
  health {
    interval = "50ms"
    readmit  = "0s"
  }
  websocket {
    health_poll = "50ms"
  }
`

// newScene starts count nodes at block 100 and the product; more goes into the
// listener's block.
func newScene(t *testing.T, count int, more string) *scene {
	t.Helper()
	s := newNodes(t, count, func(_ int, n *simulator.EVMNode) *httptest.Server { return httptest.NewServer(n) })
	if !strings.Contains(more, "health {") {
		more += settings
	}
	s.start(s.config(more))
	s.healthy(count)
	return s
}

// newNodes is a scene whose product has not been started. port opens that of a
// node.
func newNodes(t *testing.T, count int, port func(i int, n *simulator.EVMNode) *httptest.Server) *scene {
	t.Helper()
	s := &scene{t: t, chain: simulator.NewEVMChain(1337, 100), log: &lines{}, reload: make(chan gateway.Reload)}
	s.management, s.admin = freeAddresses(t)
	for i := range count {
		n := simulator.NewEVMNode(fmt.Sprintf("node-%d", i), s.chain)
		s.nodes = append(s.nodes, n)
		s.ports = append(s.ports, port(i, n))
	}
	return s
}

// config is an HCL file for the nodes.
func (s *scene) config(more string) *config.Config {
	s.t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "admin {\n  address = %q\n}\nlistener \"evm\" \"test\" {\n  address = \"127.0.0.1:1\"\n  management { address = %q }\n%s\n", s.admin, s.management, more)
	for i, p := range s.ports {
		if !strings.Contains(more, fmt.Sprintf("server \"node-%d\"", i)) {
			fmt.Fprintf(&b, "  server \"node-%d\" { endpoint = %q }\n", i, p.URL)
		}
	}
	b.WriteString("}\n")
	cfg, _, err := config.Parse("test.hcl", []byte(b.String()))
	if err != nil {
		s.t.Fatal(err)
	}
	// Files have no port 0.
	cfg.EVM[0].Address = "127.0.0.1:0"
	return cfg
}

// freeAddresses are different ones on which nobody listens. They are outside the
// range from which the system takes ports for outgoing connections, so that they
// are free still when the product opens them.
func freeAddresses(t *testing.T) (a, b string) {
	t.Helper()
	const low, high = 12000, 32000
	var found []string
	for range 200 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", low+rand.IntN(high-low)))
		if err != nil {
			continue
		}
		defer l.Close()
		if found = append(found, l.Addr().String()); len(found) == 2 {
			return found[0], found[1]
		}
	}
	t.Fatal("no free ports on 127.0.0.1")
	return "", ""
}

func (s *scene) start(cfg *config.Config) {
	ctx, cancel := context.WithCancel(context.Background())
	ready := make(chan map[string]net.Addr, 1)
	ended := make(chan error, 1)
	log := slog.New(slog.NewTextHandler(s.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	go func() {
		ended <- gateway.Run(ctx, cfg, gateway.Options{Logger: log, Reload: s.reload, Ready: func(a map[string]net.Addr) { ready <- a }})
	}()
	s.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: 20 * time.Second}
	s.t.Cleanup(func() {
		s.client.CloseIdleConnections()
		cancel()
		if err := <-ended; err != nil {
			s.t.Error(err)
		}
		for _, p := range s.ports {
			p.CloseClientConnections()
			p.Close()
		}
		if s.t.Failed() {
			text := s.log.text.String()
			s.t.Logf("the last of the log:\n%s", text[max(0, len(text)-3000):])
		}
	})
	select {
	case a := <-ready:
		s.addr = a["test"].String()
	case err := <-ended:
		ended <- err
		s.t.Fatal(err)
	}
}

// apply puts another configuration in force.
func (s *scene) apply(cfg *config.Config) {
	s.t.Helper()
	s.reload <- gateway.Reload{Config: cfg, Why: "test"}
	eventually(s.t, "the configuration is in force", func() bool {
		return s.log.has("a new configuration is in force") || s.log.has("the configuration was not changed")
	})
}

// metric is the value of flotilla_evm_NAME.
func (s *scene) metric(name string) int {
	s.t.Helper()
	_, text := get(s.t, s.client, "http://"+s.admin+"/metrics")
	_, rest, ok := strings.Cut(text, fmt.Sprintf("\nflotilla_evm_%s{listener=\"test\"} ", name))
	value, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.Atoi(value)
	if !ok || err != nil {
		s.t.Fatalf("flotilla_evm_%s is %q", name, value)
	}
	return n
}

// status is the management API's /health.
func (s *scene) status() (healthy int, blocks map[string]uint64) {
	resp, err := s.client.Get("http://" + s.management + "/health")
	if err != nil {
		return -1, nil
	}
	defer resp.Body.Close()
	var st struct {
		HealthyCount int `json:"healthy_count"`
		Servers      []struct {
			URL   string
			Block uint64
		}
	}
	if json.NewDecoder(resp.Body).Decode(&st) != nil {
		return -1, nil
	}
	blocks = map[string]uint64{}
	for i, x := range st.Servers {
		blocks[s.nodes[i].Name] = x.Block
	}
	return st.HealthyCount, blocks
}

// healthy waits for that many healthy nodes.
func (s *scene) healthy(want int) {
	s.t.Helper()
	eventually(s.t, fmt.Sprintf("%d healthy nodes", want), func() bool { n, _ := s.status(); return n == want })
}

// seen waits until the product knows the heads of all nodes.
func (s *scene) seen() { s.seenBut(-1) }

// seenBut is seen without the head of one node.
func (s *scene) seenBut(liar int) {
	s.t.Helper()
	eventually(s.t, "all heads are known", func() bool {
		_, blocks := s.status()
		for i, n := range s.nodes {
			if i != liar && blocks[n.Name] != n.Head() {
				return false
			}
		}
		return true
	})
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !cond(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
	}
}

// answer is one JSON-RPC answer.
type answer struct {
	ID     json.RawMessage
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
	status int
	node   string
}

func (a answer) String() string {
	if a.Error != nil {
		return fmt.Sprintf("status %d from %q: error %d %s", a.status, a.node, a.Error.Code, a.Error.Message)
	}
	return fmt.Sprintf("status %d from %q: %s", a.status, a.node, a.Result)
}

// number is a result that is a quantity.
func (a answer) number() uint64 {
	text, err := strconv.Unquote(string(a.Result))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
	return n
}

func post(client *http.Client, target, body string) (*http.Response, []byte, error) {
	resp, err := client.Post(target, "application/json", strings.NewReader(body))
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return resp, text, err
}

// ask makes one call to any endpoint.
func ask(client *http.Client, target, method, params string) (answer, error) {
	resp, text, err := post(client, target, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
	if err != nil {
		return answer{}, err
	}
	a := answer{status: resp.StatusCode, node: resp.Header.Get("X-Node")}
	if err := json.Unmarshal(text, &a); err != nil {
		return a, fmt.Errorf("%w in %q", err, text)
	}
	return a, nil
}

// call makes one call through the product.
func (s *scene) call(method, params string) answer {
	s.t.Helper()
	a, err := ask(s.client, "http://"+s.addr+"/", method, params)
	if err != nil {
		s.t.Fatal(err)
	}
	return a
}
