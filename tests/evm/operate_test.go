package evm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/simulator"

	"github.com/gorilla/websocket"
)

// get reads a page of the admin port.
func get(t *testing.T, client *http.Client, target string) (int, string) {
	t.Helper()
	resp, err := client.Get(target)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestMetricsAndReadiness(t *testing.T) {
	s := newScene(t, 2, "")
	s.call("eth_blockNumber", "[]")
	code, text := get(t, s.client, "http://"+s.admin+"/metrics")
	for _, want := range []string{
		`flotilla_evm_nodes_healthy{listener="test"} 2`, `flotilla_evm_tip_block{listener="test"} 100`, `flotilla_evm_told_block{listener="test"} 100`,
		`flotilla_evm_requests_total{listener="test"} 1`, `flotilla_evm_node_healthy{listener="test",server="node-1"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("%d: no line %s", code, want)
		}
	}
	if strings.Contains(text, s.ports[0].URL) {
		t.Error("an endpoint is in the metrics")
	}
	if code, text := get(t, s.client, "http://"+s.admin+"/ready"); code != 200 {
		t.Fatal(code, text)
	}
	for _, n := range s.nodes {
		n.Break(simulator.EVMFaults{Status: 500})
	}
	s.healthy(0)
	for _, path := range []string{"/ready", "/ready/test"} {
		if code, text := get(t, s.client, "http://"+s.admin+path); code != 503 || !strings.Contains(text, "test") {
			t.Fatal(path, code, text)
		}
	}
}

// A reload changes servers and settings under clients that are there, who
// notice nothing; one that cannot be had changes nothing.
func TestReloadUnderLoad(t *testing.T) {
	s := newScene(t, 3, "")
	stop := make(chan struct{})
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if a, err := ask(s.client, "http://"+s.addr+"/", "eth_getBalance", `["0xaa","latest"]`); err != nil || a.Error != nil {
					t.Errorf("%v %v", a, err)
					return
				}
			}
		})
	}
	for i := range 6 {
		cfg := s.config(settings)
		if i%2 == 0 {
			cfg.EVM[0].Servers = cfg.EVM[0].Servers[1:]
			cfg.EVM[0].Limits.GetLogs = 3
		}
		s.reload <- gateway.Reload{Config: cfg, Why: "test"}
		want := len(cfg.EVM[0].Servers)
		s.healthy(want)
	}
	broken := s.config(settings)
	broken.EVM[0].TLS = &config.TLS{CertFile: "none", KeyFile: "none"}
	s.reload <- gateway.Reload{Config: broken, Why: "test"}
	eventually(t, "the refusal is logged", func() bool { return s.log.has("the configuration was not changed") })
	close(stop)
	clients.Wait()
	s.healthy(3)
}

// What is above a limit is refused with the id of the call.
func TestLimits(t *testing.T) {
	s := newScene(t, 1, "limits {\n rate = 1\n burst = 5\n max_body = \"1KiB\"\n}\n")
	refused := 0
	for range 8 {
		a := s.call("eth_chainId", "[]")
		if a.status == http.StatusTooManyRequests && a.Error != nil && string(a.ID) == "1" {
			refused++
		} else if a.Error != nil {
			t.Fatal(a)
		}
	}
	if refused < 2 {
		t.Fatalf("%d of 8 calls were refused", refused)
	}
	resp, _, err := post(s.client, "http://"+s.addr+"/", strings.Repeat("x", 2048))
	if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Fatal(err, resp)
	}
}

// eth_getLogs is bounded in batches and over WebSocket as well.
func TestGetLogsBound(t *testing.T) {
	s := newScene(t, 1, "limits {\n get_logs = 2\n}\n"+settings)
	s.nodes[0].Break(simulator.EVMFaults{Delay: 20 * time.Millisecond})
	logs := func(id int) string { return call(id, "eth_getLogs", `[{"fromBlock":"0x1","toBlock":"0x2"}]`) }
	c := s.dial()
	for i := range 6 {
		c.send(logs(i))
	}
	list := s.batchOf(logs(1), logs(2), logs(3), logs(4))
	if len(list) != 4 {
		t.Fatal(list)
	}
	for i := range 6 {
		var found []json.RawMessage
		if a := c.answer(i); json.Unmarshal(a.Result, &found) != nil || len(found) != 2 {
			t.Fatal(fmt.Sprint(a))
		}
	}
}

// A reload that says something else of the same nodes leaves them in the pool,
// with what is known of them: nobody waits for readmit, and no WebSocket moves.
func TestReloadKeepsNodes(t *testing.T) {
	health := func(more string) string { return "health {\n interval = \"50ms\"\n readmit = \"1h\"\n" + more + "}\n" }
	s := newNodes(t, 2, func(_ int, n *simulator.EVMNode) *httptest.Server { return httptest.NewServer(n) })
	s.start(s.config("health {\n interval = \"50ms\"\n readmit = \"0s\"\n}\n"))
	s.healthy(2)
	c := s.dial()
	sub := c.subscribe(1, `["newHeads"]`)
	for i, change := range []func(l *config.EVM){
		func(l *config.EVM) { l.Servers[0].Weight, l.Servers[1].Weight = 7, 9 },
		func(l *config.EVM) { l.Servers[1].Labels = map[string]string{"rack": "r1"} },
		func(l *config.EVM) { l.Servers[1].Priority = 3 },
		func(l *config.EVM) { l.Servers[1].EarliestBlock = 50 },
		func(l *config.EVM) { l.Health.Subscribe = false },
		func(l *config.EVM) { l.Health.Subscribe = true },
		func(l *config.EVM) { l.HoldWait, l.Drain = time.Second, time.Millisecond },
		func(l *config.EVM) { l.WebSocket.Heartbeat = time.Minute },
		func(l *config.EVM) { l.Limits.Rate, l.Limits.Burst = 1000, 1000 },
		func(l *config.EVM) { l.Routing = config.RouteFreshest },
		func(l *config.EVM) {},
	} {
		cfg := s.config(health(""))
		change(cfg.EVM[0])
		s.reload <- gateway.Reload{Config: cfg, Why: "test"}
		eventually(t, "the configuration is in force", func() bool { return s.log.count("a new configuration is in force") == i+1 })
		if healthy, _ := s.status(); healthy != 2 {
			t.Fatalf("change %d left %d nodes in the pool", i, healthy)
		}
		if a := s.call("eth_getBalance", `["0xaa","latest"]`); a.Error != nil {
			t.Fatal(i, a)
		}
		s.mine()
		eventually(t, "a head", func() bool { return len(c.got(sub)) == i+1 })
	}
	if got := s.metric("websocket_moves_total"); got != 0 {
		t.Fatalf("subscriptions moved %d times", got)
	}
	// Priorities count at once, and so does what is known of the history.
	cfg := s.config(health(""))
	cfg.EVM[0].Servers[0].Priority = 1
	cfg.EVM[0].Servers[1].EarliestBlock = 90
	s.reload <- gateway.Reload{Config: cfg, Why: "test"}
	eventually(t, "the configuration is in force", func() bool { return s.log.count("a new configuration is in force") == 12 })
	s.seen()
	for range 20 {
		if a := s.call("eth_getBalance", `["0xaa","latest"]`); a.node != "node-1" {
			t.Fatal(a)
		}
		if a := s.call("eth_getBalance", `["0xaa","0x10"]`); a.node != "node-0" {
			t.Fatal(a)
		}
	}
}

// Each field of a listener takes effect with a reload.
func TestReloadedFields(t *testing.T) {
	s := newScene(t, 2, "")
	reloads := 0
	apply := func(change func(l *config.EVM)) {
		t.Helper()
		reloads++
		cfg := s.config(settings)
		change(cfg.EVM[0])
		s.reload <- gateway.Reload{Config: cfg, Why: "test"}
		eventually(t, "the configuration is in force", func() bool { return s.log.count("a new configuration is in force") == reloads })
	}
	t.Run("chain_id", func(t *testing.T) {
		other := uint64(5)
		apply(func(l *config.EVM) { l.ChainID = &other })
		s.healthy(0)
		apply(func(l *config.EVM) {})
		s.healthy(2)
	})
	t.Run("servers", func(t *testing.T) {
		apply(func(l *config.EVM) { l.Servers[0].Enabled = false })
		s.healthy(1)
		apply(func(l *config.EVM) {})
		s.healthy(2)
	})
	t.Run("headers", func(t *testing.T) {
		apply(func(l *config.EVM) {
			for _, x := range l.Servers {
				x.Headers = map[string]string{"X-Refuse": "1"}
			}
		})
		s.healthy(0)
		apply(func(l *config.EVM) {})
		s.healthy(2)
	})
	t.Run("hold_wait", func(t *testing.T) {
		s.nodes[0].Import(s.chain.Mine(1))
		s.seen()
		if a := s.call("eth_blockNumber", "[]"); a.number() != 101 {
			t.Fatal(a)
		}
		apply(func(l *config.EVM) { l.HoldWait, l.Servers[0].Enabled = 0, false })
		s.healthy(1)
		if a := s.call("eth_getBalance", `["0xaa","latest"]`); a.status != http.StatusServiceUnavailable {
			t.Fatal(a)
		}
		s.nodes[1].Import(101)
		apply(func(l *config.EVM) {})
		s.healthy(2)
	})
	t.Run("limits", func(t *testing.T) {
		apply(func(l *config.EVM) { l.Limits.MaxBatch = 1 })
		_, text, err := post(s.client, "http://"+s.addr+"/", "["+call(1, "eth_chainId", "[]")+","+call(2, "eth_chainId", "[]")+"]")
		if err != nil || !strings.Contains(string(text), "too large") {
			t.Fatalf("%s %v", text, err)
		}
		apply(func(l *config.EVM) { l.Limits.MaxBody = 1024 })
		resp, _, err := post(s.client, "http://"+s.addr+"/", strings.Repeat("x", 2048))
		if err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Fatal(resp, err)
		}
		apply(func(l *config.EVM) { l.Limits.Rate, l.Limits.Burst = 1, 1 })
		refused := 0
		for range 4 {
			if a := s.call("eth_chainId", "[]"); a.status == http.StatusTooManyRequests {
				refused++
			}
		}
		if refused == 0 {
			t.Fatal("the rate is not in force")
		}
	})
	t.Run("websocket", func(t *testing.T) {
		apply(func(l *config.EVM) { l.WebSocket.MaxMessage = 1024 })
		c := s.dial()
		// It may be told before it has sent all.
		_ = c.conn.WriteMessage(websocket.TextMessage, []byte(call(1, "eth_call", `["`+strings.Repeat("x", 2048)+`"]`)))
		<-c.ended
		apply(func(l *config.EVM) { l.WebSocket.OnRotate = config.RotateClose })
		if a := s.dial().call(1, "test_node", "[]"); a.Error != nil {
			t.Fatal(a)
		}
	})
	t.Run("reference", func(t *testing.T) {
		far := simulator.NewEVMNode("far", simulator.NewEVMChain(1337, 5000))
		witness := httptest.NewServer(far)
		defer witness.Close()
		apply(func(l *config.EVM) {
			l.Reference = &config.EVMReference{URL: witness.URL, Method: "eth_blockNumber", Interval: 50 * time.Millisecond, MaxLag: 5}
		})
		eventually(t, "the fleet lags", func() bool { return s.metric("fleet_lagging") == 1 && s.metric("reference_block") == 5000 })
		for range 20 {
			s.call("eth_getBalance", `["0xaa","latest"]`)
			s.call("eth_blockNumber", "[]")
		}
		if far.Calls("eth_getBalance") > 0 || far.Calls("eth_getBlockByNumber") > 0 {
			t.Fatal("the reference has had the calls of clients")
		}
		apply(func(l *config.EVM) {})
		if got := s.metric("fleet_lagging"); got != 0 {
			t.Fatal("it lags behind a reference that is gone")
		}
	})
}

// Where a node has WebSocket its heads are known as they are announced; else they
// are polled.
func TestHeadsAreFollowed(t *testing.T) {
	s := newNodes(t, 2, func(_ int, n *simulator.EVMNode) *httptest.Server { return httptest.NewServer(n) })
	s.start(s.config("health {\n interval = \"1h\"\n readmit = \"0s\"\n}\n"))
	s.healthy(2)
	eventually(t, "both are followed", func() bool { return s.nodes[0].Sockets() == 1 && s.nodes[1].Sockets() == 1 })
	s.nodes[1].Import(s.chain.Mine(1))
	eventually(t, "the head of node-1", func() bool { return s.metric("tip_block") == 101 })
	if a := s.call("eth_getBlockByNumber", `["0x65",false]`); a.node != "node-1" {
		t.Fatal(a)
	}
	polled := newNodes(t, 2, func(_ int, n *simulator.EVMNode) *httptest.Server {
		n.Break(simulator.EVMFaults{Deaf: true})
		return httptest.NewServer(n)
	})
	polled.start(polled.config(settings))
	polled.healthy(2)
	polled.nodes[1].Import(polled.chain.Mine(1))
	eventually(t, "the head of node-1", func() bool { return polled.metric("tip_block") == 101 })
}
