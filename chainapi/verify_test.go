package chainapi

import (
	"log/slog"
	"strings"
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/ship"
)

// someFleet is a SHiP side that knows nothing.
type someFleet struct{ changed chan struct{} }

func (someFleet) View() *fleet.View          { return &fleet.View{} }
func (f someFleet) Changed() <-chan struct{} { return f.changed }
func (someFleet) Pair() *fleet.Pair          { return &fleet.Pair{} }

func block100(salt byte) ship.Pos { return ship.Pos{Num: 100, ID: ship.ID{0, 0, 0, 100, salt}} }

// An archive gets and loses its verification, and each loss is told once.
func TestVerification(t *testing.T) {
	var said strings.Builder
	p := New(&config.Listener{ChainAPI: &config.ChainAPI{}}, nil, someFleet{}, nil, slog.New(slog.NewTextHandler(&said, nil)))
	o := &owner{p: p}
	k := &known{API: API{Server: &config.Server{Name: "z", Role: config.Frozen}, Good: true}}
	o.known = []*known{k}
	one, two := block100(1), block100(2)
	const lost = "serves different blocks than its SHiP endpoint"
	for _, step := range []struct {
		what          string
		do            func()
		ask, verified bool
		losses        int
	}{
		{"described, SHiP unknown", func() { k.last = one }, false, false, 0},
		{"SHiP has another head", func() { k.ship = two; o.judgeShip(k) }, false, false, 0},
		{"SHiP has that head", func() { k.ship = one; o.judgeShip(k) }, true, false, 0},
		{"get_block_info tells another id", func() { o.proved(k, one, false) }, true, false, 0},
		{"get_block_info tells that id", func() { o.proved(k, one, true) }, false, true, 0},
		{"SHiP is unknown again", func() { k.ship = ship.Pos{}; o.judgeShip(k) }, false, true, 0},
		{"SHiP is back", func() { k.ship = one; o.judgeShip(k) }, false, true, 0},
		{"an old proof", func() { o.proved(k, two, false) }, false, true, 0},
		{"another last block", func() { k.last = two }, true, true, 0},
		{"which is not that of SHiP", func() { o.proved(k, two, true) }, false, false, 1},
		{"SHiP follows", func() { k.ship = two; o.judgeShip(k) }, true, false, 1},
		{"proven again", func() { o.proved(k, two, true) }, false, true, 1},
		{"SHiP moves on", func() { k.ship = one; o.judgeShip(k); o.judgeShip(k) }, false, false, 2},
		{"proven once more", func() { k.last = one; o.proved(k, one, true) }, false, true, 2},
		{"another chain", func() { o.first = &ship.ID{1}; o.reported(k, ship.ID{2}) }, false, false, 3},
		{"the right one", func() { o.reported(k, ship.ID{1}) }, true, false, 3},
	} {
		step.do()
		if _, ask := k.toProve(); ask != step.ask || k.Verified != step.verified {
			t.Errorf("%s: to prove %v, verified %v", step.what, ask, k.Verified)
		}
		if n := strings.Count(said.String(), lost); n != step.losses {
			t.Errorf("%s: %d losses were told", step.what, n)
		}
	}
}

// An API is down after two bad probes in a row, or one failed request, and up
// after one good probe.
func TestUpAndDown(t *testing.T) {
	var said strings.Builder
	p := New(&config.Listener{ChainAPI: &config.ChainAPI{}}, nil, someFleet{}, nil, slog.New(slog.NewTextHandler(&said, nil)))
	o := &owner{p: p}
	k := &known{API: API{Server: &config.Server{Name: "a", Role: config.Live}, link: newLink("a", nil)}}
	o.known = []*known{k}
	bad := func() { o.bad(k, errProtocol) }
	good := func() { o.good(k) }
	for _, step := range []struct {
		what string
		do   func()
		up   bool
	}{
		{"bad from the start", bad, false}, {"good", good, true}, {"bad", bad, true}, {"good again", good, true}, {"bad", bad, true}, {"and bad", bad, false},
		{"still bad", bad, false}, {"good", good, true}, {"on another chain", func() { o.first = &ship.ID{1}; o.reported(k, ship.ID{2}) }, false},
		{"good there", good, false}, {"on the right one", func() { o.reported(k, ship.ID{1}) }, true},
	} {
		if step.do(); k.Up() != step.up {
			t.Errorf("%s: up is %v", step.what, k.Up())
		}
	}
	if up, down := strings.Count(said.String(), "chain API up"), strings.Count(said.String(), "chain API down"); up != 3 || down != 1 {
		t.Errorf("it was told up %d times and down %d times:\n%s", up, down, said.String())
	}
}
