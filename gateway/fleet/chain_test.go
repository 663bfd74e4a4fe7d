package fleet

import (
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"
)

// on is a status of a node on chain n; 0 names none.
func on(chain byte) ship.Status {
	s := status(100, 90)
	s.ChainID, s.HasChainID = ship.ID{chain}, chain != 0
	if chain == 0 {
		s.V1, s.ChainID = false, ship.ID{}
	}
	return s
}

func pin(chain byte) func(*config.Listener) {
	return func(c *config.Listener) { c.ChainID = &[32]byte{chain} }
}

func require(chain byte) func(*config.Listener) {
	return func(c *config.Listener) { pin(chain)(c); c.RequireChainID = true }
}

// TestChainRules is M8. Each step is a status of a node, or its loss.
func TestChainRules(t *testing.T) {
	const lost = 255
	type step struct {
		node  int
		chain byte
	}
	const (
		wrong   = "is kept offline"
		missing = "too old to name its chain_id"
	)
	for name, tt := range map[string]struct {
		config func(*config.Listener)
		steps  []step
		online []string
		chain  byte // that of the fleet (M9), 0 for none
		warned map[string]int
	}{
		"pinned, the same":       {pin(1), []step{{0, 1}, {1, 1}}, []string{"a", "b"}, 1, nil},
		"pinned, another":        {pin(1), []step{{0, 2}, {1, 1}}, []string{"b"}, 1, map[string]int{wrong: 1}},
		"pinned, another, often": {pin(1), []step{{0, 2}, {0, 2}, {0, 2}}, nil, 1, map[string]int{wrong: 1}},
		"pinned, now another":    {pin(1), []step{{0, 1}, {0, 2}}, nil, 1, map[string]int{wrong: 1}},
		"pinned, repaired":       {pin(1), []step{{0, 2}, {0, 1}}, []string{"a"}, 1, map[string]int{wrong: 1}},
		"pinned, wrong anew":     {pin(1), []step{{0, 2}, {0, 1}, {0, 2}}, nil, 1, map[string]int{wrong: 2}},
		"pinned, wrong twice":    {pin(1), []step{{0, 2}, {0, 3}}, nil, 1, map[string]int{wrong: 2}},
		"pinned, none":           {pin(1), []step{{0, 0}, {0, 0}}, []string{"a"}, 1, map[string]int{missing: 1}},
		"pinned, vanished":       {pin(1), []step{{0, 0}, {0, 1}, {0, 0}, {0, 0}}, []string{"a"}, 1, map[string]int{missing: 2}},
		"required, none":         {require(1), []step{{0, 0}, {0, 0}, {1, 1}}, []string{"b"}, 1, map[string]int{wrong: 1, missing: 0}},
		"required, vanished":     {require(1), []step{{0, 1}, {0, 0}}, nil, 1, map[string]int{wrong: 1}},
		"required, comes":        {require(1), []step{{0, 0}, {0, 1}}, []string{"a"}, 1, map[string]int{wrong: 1}},
		"required, another":      {require(1), []step{{0, 2}}, nil, 1, map[string]int{wrong: 1}},

		"the first to report wins":            {nil, []step{{1, 2}, {0, 1}}, []string{"b"}, 2, map[string]int{wrong: 1}},
		"and keeps winning":                   {nil, []step{{1, 2}, {0, 1}, {1, 2}, {0, 1}}, []string{"b"}, 2, map[string]int{wrong: 1}},
		"all on one chain":                    {nil, []step{{0, 1}, {1, 1}, {2, 1}}, []string{"a", "b", "c"}, 1, map[string]int{wrong: 0}},
		"unpinned, none at all":               {nil, []step{{0, 0}, {1, 0}}, []string{"a", "b"}, 0, map[string]int{wrong: 0, missing: 0}},
		"one without an id binds nobody":      {nil, []step{{0, 0}, {1, 2}}, []string{"a", "b"}, 2, nil},
		"an id that vanished still counts":    {nil, []step{{0, 1}, {0, 0}, {1, 2}}, []string{"a"}, 1, map[string]int{wrong: 1}},
		"one that is offline binds nobody":    {nil, []step{{0, 1}, {0, lost}, {1, 2}}, []string{"b"}, 2, map[string]int{wrong: 0}},
		"it is then bound itself":             {nil, []step{{0, 1}, {0, lost}, {1, 2}, {0, 1}}, []string{"b"}, 2, map[string]int{wrong: 1}},
		"a lone one may change its chain":     {nil, []step{{0, 1}, {0, 2}}, []string{"a"}, 2, map[string]int{wrong: 0}},
		"not beside another":                  {nil, []step{{0, 1}, {1, 1}, {0, 2}}, []string{"b"}, 1, map[string]int{wrong: 1}},
		"the fleet's is that of the first":    {nil, []step{{2, 1}, {0, 0}, {1, 1}}, []string{"a", "b", "c"}, 1, nil},
		"a required id needs a pin to bind":   {func(c *config.Listener) { c.RequireChainID = true }, []step{{0, 0}}, []string{"a"}, 0, map[string]int{wrong: 0}},
		"the zero id is an id like any other": {pin(0), []step{{0, 1}}, nil, 0, map[string]int{wrong: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := silent(t, tt.config, "a", "b", "c")
			for _, s := range tt.steps {
				if s.chain == lost {
					w.loses(s.node)
				} else {
					w.says(s.node, on(s.chain))
				}
			}
			w.online(tt.online...)
			got := w.View().ChainID
			if pinned := w.Config().ChainID != nil; (got != nil) != (tt.chain != 0 || pinned) || got != nil && *got != (ship.ID{tt.chain}) {
				t.Errorf("the chain of the fleet is %v, %d was due", got, tt.chain)
			}
			for part, n := range tt.warned {
				if got := w.log.count("WARN", part); got != n {
					t.Errorf("%d warnings that a server %s, %d were due", got, part, n)
				}
			}
		})
	}
}

// TestChainMismatchLeavesWhatIsKnown: nothing of another chain is taken over.
func TestChainMismatchLeavesWhatIsKnown(t *testing.T) {
	w := silent(t, pin(1), "a")
	w.tells(0, 100, 90)
	other := on(2)
	other.Head, other.LIB = pos(9000), pos(8000)
	w.says(0, other)
	if u := w.up(0); u.Online || u.ChainID != nil || u.Head.Num != 100 || !u.Known {
		t.Errorf("known of the node: %+v", u)
	}
	w.tipIs(100, 90)
	before := w.View()
	w.says(0, other)
	if w.View() != before {
		t.Error("the same again made a new view")
	}
}

// TestABIWarnings are once for each fingerprint, and no reason to refuse.
func TestABIWarnings(t *testing.T) {
	w := silent(t, nil, "a", "b")
	parse := func(text string) *ship.ABI {
		t.Helper()
		a, err := ship.ParseABI([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	odd := `{"version":"eosio::abi/1.1","variants":[{"name":"request","types":["other"]},{"name":"result","types":["other"]}]}`
	for _, step := range []struct {
		node  int
		abi   string
		warns int // all told
	}{
		{0, springABI, 0}, {0, oldABI, 0}, {0, odd, 1}, {0, odd, 1}, {0, " " + odd, 1}, {1, odd, 2}, {0, springABI, 2}, {0, odd, 2},
	} {
		w.do(func(o *owner) { o.abi(step.node, parse(step.abi)) })
		if got := w.log.count("WARN", "lists other messages"); got != step.warns {
			t.Errorf("%d warnings after %.60s of node %d, %d were due", got, step.abi, step.node, step.warns)
		}
		if got := string(w.up(step.node).ABI.Text); got != step.abi {
			t.Errorf("the ABI of the view is %.60s", got)
		}
	}
	// One that somebody has sent already is not parsed again.
	if a := w.knownABI([]byte(odd)); a != w.up(1).ABI && a != w.up(0).ABI || a == nil {
		t.Errorf("the known ABI is %v", a)
	}
	if a := w.knownABI([]byte("{}")); a != nil {
		t.Errorf("an ABI is known that nobody sent: %v", a)
	}
}
