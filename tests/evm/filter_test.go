package evm

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"flotilla/gateway/simulator"
)

// newFilter makes a filter and returns its id and the node that has it.
func (s *scene) newFilter(method, params string) (id, node string) {
	s.t.Helper()
	a := s.call(method, params)
	id, err := strconv.Unquote(string(a.Result))
	if err != nil || a.Error != nil {
		s.t.Fatal(a)
	}
	return id, a.node
}

// changes are the blocks that a filter of logs, or of blocks, tells.
func (s *scene) changes(method, id string) (list []uint64, from string) {
	s.t.Helper()
	a := s.call(method, fmt.Sprintf("[%q]", id))
	if a.Error != nil {
		s.t.Fatal(a)
	}
	return blocksOf(s.t, a), a.node
}

func blocksOf(t *testing.T, a answer) (list []uint64) {
	t.Helper()
	var parts []json.RawMessage
	if err := json.Unmarshal(a.Result, &parts); err != nil {
		t.Fatal(a)
	}
	for _, p := range parts {
		var log struct{ BlockNumber string }
		if text, err := strconv.Unquote(string(p)); err == nil {
			// The number is the last part of a simulated hash.
			log.BlockNumber = text[len(text)-16:]
		} else if err := json.Unmarshal(p, &log); err != nil {
			t.Fatal(a)
		} else {
			log.BlockNumber = log.BlockNumber[2:]
		}
		n, err := strconv.ParseUint(log.BlockNumber, 16, 64)
		if err != nil {
			t.Fatal(a)
		}
		list = append(list, n)
	}
	return list
}

// mined adds blocks that every node imports and the product knows.
func (s *scene) mined(count uint64) {
	s.t.Helper()
	head := s.chain.Mine(count)
	for _, n := range s.nodes {
		n.Import(head)
	}
	s.seen()
}

// unknown checks that a filter is answered as one that nobody knows.
func (s *scene) unknown(id string) {
	s.t.Helper()
	for _, method := range []string{"eth_getFilterChanges", "eth_getFilterLogs"} {
		a := s.call(method, fmt.Sprintf("[%q]", id))
		if a.status != http.StatusOK || a.Error == nil || a.Error.Code != -32000 || a.Error.Message != "filter not found" || string(a.ID) != "1" {
			s.t.Fatalf("%s: %v", method, a)
		}
	}
	if a := s.call("eth_uninstallFilter", fmt.Sprintf("[%q]", id)); a.Error != nil || string(a.Result) != "false" {
		s.t.Fatal(a)
	}
}

// Filters are asked of the node that made them, whatever ids nodes give.
func TestFiltersGoToTheirNode(t *testing.T) {
	s := newScene(t, 3, "")
	home := map[string]string{}
	kinds := []string{"eth_newFilter", "eth_newBlockFilter"}
	byKind := map[string][]string{}
	// Until each node has filters of each kind, and their ids are alike.
	eventually(t, "each node has filters", func() bool {
		for _, kind := range kinds {
			id, node := s.newFilter(kind, "[]")
			if _, twice := home[id]; twice {
				t.Fatalf("the id %s was given twice", id)
			}
			home[id] = node
			byKind[kind] = append(byKind[kind], id)
		}
		for _, n := range s.nodes {
			if n.Calls(kinds[0]) == 0 || n.Calls(kinds[1]) == 0 {
				return false
			}
		}
		return true
	})
	pending, pendingHome := s.newFilter("eth_newPendingTransactionFilter", "[]")
	for _, want := range [][]uint64{{101, 102}, {103}, nil} {
		if want != nil {
			s.mined(uint64(len(want)))
		}
		for id := range home {
			if got, from := s.changes("eth_getFilterChanges", id); !slices.Equal(got, want) || from != home[id] {
				t.Fatalf("%v from %s, not %v from %s", got, from, want, home[id])
			}
		}
	}
	if got, from := s.changes("eth_getFilterChanges", pending); len(got) != 0 || from != pendingHome {
		t.Fatalf("%v from %s", got, from)
	}
	id := byKind["eth_newFilter"][0]
	if got, from := s.changes("eth_getFilterLogs", id); !slices.Equal(got, []uint64{101, 102, 103}) || from != home[id] {
		t.Fatalf("%v from %s", got, from)
	}
	if a := s.call("eth_uninstallFilter", fmt.Sprintf("[%q]", id)); string(a.Result) != "true" || a.node != home[id] {
		t.Fatal(a)
	}
	s.unknown(id)
	// The id of a node itself is none.
	s.unknown("0x1")
	t.Run("in a batch", func(t *testing.T) {
		s.mined(1)
		logs, blocks := byKind["eth_newFilter"][1], byKind["eth_newBlockFilter"][0]
		list := s.batchOf(call(1, "eth_getFilterChanges", fmt.Sprintf("[%q]", logs)), call(2, "eth_blockNumber", "[]"),
			call(3, "eth_getFilterChanges", fmt.Sprintf("[%q]", blocks)), call(4, "eth_newBlockFilter", "[]"), call(5, "eth_getFilterChanges", `["0x1"]`))
		if len(list) != 5 || !slices.Equal(blocksOf(t, list[0]), []uint64{104}) || list[1].number() != 104 || !slices.Equal(blocksOf(t, list[2]), []uint64{104}) {
			t.Fatal(list)
		}
		if list[4].Error == nil || list[4].Error.Message != "filter not found" {
			t.Fatal(list)
		}
		made, err := strconv.Unquote(string(list[3].Result))
		if err != nil {
			t.Fatal(list[3])
		}
		s.mined(1)
		if got, _ := s.changes("eth_getFilterChanges", made); !slices.Equal(got, []uint64{105}) {
			t.Fatal(got)
		}
	})
	t.Run("over a WebSocket", func(t *testing.T) {
		c := s.dial()
		made, err := strconv.Unquote(string(c.call(1, "eth_newFilter", "[{}]").Result))
		if err != nil {
			t.Fatal(err)
		}
		s.mined(1)
		if got, _ := s.changes("eth_getFilterChanges", made); !slices.Equal(got, []uint64{106}) {
			t.Fatal(got)
		}
	})
	t.Run("an id that is no text is for the nodes to refuse", func(t *testing.T) {
		if a := s.call("eth_getFilterChanges", "[7]"); a.node == "" || a.Error == nil {
			t.Fatal(a)
		}
	})
}

// The metrics tell how many filters there are, and how they ended.
func TestFilterMetrics(t *testing.T) {
	s := newScene(t, 2, "")
	want := func(live, made, uninstalled, lost int) {
		t.Helper()
		_, text := get(t, s.client, "http://"+s.admin+"/metrics")
		for series, value := range map[string]int{
			`flotilla_evm_filters{listener="test"}`: live, `flotilla_evm_filters_made_total{listener="test"}`: made,
			`flotilla_evm_filters_ended_total{listener="test",reason="uninstalled"}`: uninstalled,
			`flotilla_evm_filters_ended_total{listener="test",reason="lost"}`:        lost,
			`flotilla_evm_filters_ended_total{listener="test",reason="expired"}`:     0,
			`flotilla_evm_filters_ended_total{listener="test",reason="displaced"}`:   0,
		} {
			if line := fmt.Sprintf("%s %d\n", series, value); !strings.Contains(text, line) {
				t.Errorf("no line %s", line)
			}
		}
	}
	want(0, 0, 0, 0)
	var ids []string
	for range 3 {
		id, _ := s.newFilter("eth_newFilter", "[{}]")
		ids = append(ids, id)
	}
	want(3, 3, 0, 0)
	if a := s.call("eth_uninstallFilter", fmt.Sprintf("[%q]", ids[0])); string(a.Result) != "true" {
		t.Fatal(a)
	}
	want(2, 3, 1, 0)
	for _, n := range s.nodes {
		n.ForgetFilters()
	}
	s.unknown(ids[1])
	want(1, 3, 1, 1)
}

// A filter is lost with its node, and the client is told so in a node's words.
func TestFilterOfALostNode(t *testing.T) {
	for name, lose := range map[string]func(s *scene, i int){
		"it is out of the pool": func(s *scene, i int) {
			s.nodes[i].Break(simulator.EVMFaults{Status: 500})
			s.healthy(1)
		},
		"it cuts the connection": func(s *scene, i int) { s.nodes[i].Break(simulator.EVMFaults{Cut: true}) },
		"it has restarted":       func(s *scene, i int) { s.nodes[i].ForgetFilters() },
		"it has left the fleet": func(s *scene, i int) {
			cfg := s.config(settings)
			cfg.EVM[0].Servers = slices.Delete(cfg.EVM[0].Servers, i, i+1)
			s.apply(cfg)
			s.healthy(1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, 2, "")
			id, node := s.newFilter("eth_newFilter", "[{}]")
			i := slices.IndexFunc(s.nodes, func(n *simulator.EVMNode) bool { return n.Name == node })
			lose(s, i)
			s.unknown(id)
			// What was lost stays lost when the node is back.
			s.nodes[i].Break(simulator.EVMFaults{})
			s.unknown(id)
			again := ""
			eventually(t, "a new filter tells a block", func() bool {
				if again == "" {
					again, _ = s.newFilter("eth_newFilter", "[{}]")
				}
				head := s.chain.Mine(1)
				for _, n := range s.nodes {
					n.Import(head)
				}
				a := s.call("eth_getFilterChanges", fmt.Sprintf("[%q]", again))
				if a.Error != nil {
					// The node has left only now.
					again = ""
					return false
				}
				return len(blocksOf(t, a)) > 0
			})
		})
	}
}

// What a filter tells counts as told: a call for its block goes to a node that
// has it, though no check has seen it yet.
func TestFilterTellsTheHead(t *testing.T) {
	s := newScene(t, 2, unwatched)
	id, node := s.newFilter("eth_newBlockFilter", "[]")
	s.chain.Mine(1)
	i := slices.IndexFunc(s.nodes, func(n *simulator.EVMNode) bool { return n.Name == node })
	s.nodes[i].Import(101)
	if got, _ := s.changes("eth_getFilterChanges", id); !slices.Equal(got, []uint64{101}) {
		t.Fatal(got)
	}
	for range 20 {
		if a := s.call("eth_getBalance", `["0xaa","latest"]`); a.node != node || a.number() != 101 {
			t.Fatal(a)
		}
	}
}

// In the place of erigon_proxy ids are passed on as they are.
func TestFiltersOfTheFreshest(t *testing.T) {
	s := newScene(t, 1, "routing = \"freshest\"\n")
	if id, _ := s.newFilter("eth_newFilter", "[{}]"); id != "0x1" {
		t.Fatal(id)
	}
	s.mined(2)
	if got, _ := s.changes("eth_getFilterChanges", "0x1"); !slices.Equal(got, []uint64{101, 102}) {
		t.Fatal(got)
	}
}
