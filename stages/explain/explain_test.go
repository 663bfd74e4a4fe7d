package explain_test

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/ship/dial"
	"flotilla/gateway/simulator"
	"flotilla/policies"
	"flotilla/stages/explain"
)

// keep is a policy that keeps the servers of some names.
type keep string

func (k keep) Order(_ *policies.Request, servers []*policies.Server, _ int) []*policies.Server {
	return slices.DeleteFunc(servers, func(s *policies.Server) bool { return !strings.Contains(string(k), s.Name) })
}

// TestAsk asks about a fleet of four: one is down, one disabled, and of the
// other two one lacks old blocks.
func TestAsk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		net := simulator.NewNetwork()
		chain := simulator.NewChain(simulator.ChainOptions{Head: 500})
		cfg := &config.Listener{Name: "eos", Topology: config.TopologyPool, HandshakeTimeout: 5 * time.Second, MaxMessage: 1 << 20,
			Reconnect: time.Second, Monitoring: 5 * time.Second, Status: time.Second}
		for _, n := range []struct {
			name string
			from uint32
		}{{"all", 0}, {"tip", 400}, {"disabled", 0}, {"down", 0}} {
			node, err := simulator.Start(chain, simulator.Options{Address: n.name + ":8080", Listen: net.Listen, First: n.from})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(node.Close)
			if n.name == "down" {
				node.Close()
			}
			cfg.Servers = append(cfg.Servers, &config.Server{Name: n.name, Endpoint: n.name + ":8080", URL: "ws://" + n.name + ":8080/", Enabled: true, Role: config.Live, Weight: 1})
		}
		f := fleet.New(cfg, &dial.Dialer{Connect: net.DialContext}, slog.New(slog.NewTextHandler(io.Discard, nil)))
		ended := make(chan struct{})
		go func() { f.Run(ctx); close(ended) }()
		synctest.Wait()
		f.SetDisabled(2, true)
		for _, c := range []struct {
			name   string
			policy policies.Policy
			start  uint32
			order  string
			says   []string
		}{
			{"a recent block", &policies.First{}, 450, "all tip", []string{"leaves out disabled: an operator", "leaves out down: it is offline", "all gets the request"}},
			{"an old block", &policies.First{}, 5, "all", []string{"tip is of a worse rank", "all is the only one"}},
			{"no request yet", &policies.First{}, 0, "all tip", []string{"candidates are all (rank 0), tip (rank 0)"}},
			{"dropped", keep("tip"), 450, "tip", []string{"the policy drops all", "tip gets the request"}},
			{"all dropped", keep(""), 450, "", []string{"keeps none of them, so least_connections decides", "gets the request"}},
		} {
			q := explain.Question{Traces: true}
			if c.start > 0 {
				q.StartBlock = &c.start
			}
			a := explain.Ask(f, "p", c.policy, q)
			if got := strings.Join(a.Order, " "); c.order != "" && got != c.order {
				t.Errorf("%s: the order is %s, want %s", c.name, got, c.order)
			}
			steps := strings.Join(a.Steps, "\n")
			for _, says := range c.says {
				if !strings.Contains(steps, says) {
					t.Errorf("%s: the steps lack %q:\n%s", c.name, says, steps)
				}
			}
			if len(a.Servers) != 4 || a.Head != 500 || a.Plan != "serve" {
				t.Errorf("%s: the answer is %+v", c.name, a)
			}
		}
		cancel()
		<-ended
	})
}
