package evm

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
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
