package chainapi

import (
	"strings"
	"testing"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"
)

// fleetOf is a view of APIs that are as the functions make them of a good one.
func fleetOf(apis ...API) *View {
	v := &View{APIs: apis}
	for i := range v.APIs {
		v.APIs[i].index = i
		if r := v.APIs[i].claim(); !r.Empty() {
			v.claims = append(v.claims, r)
		}
	}
	return v
}

func api(name string, role config.Role, change ...func(*API)) API {
	a := API{
		Server: &config.Server{Name: name, Role: role, APIEndpoint: name, Enabled: true}, Weight: 1, Good: true,
		link: newLink(name, nil),
	}
	a.link.slots.setLimit(2)
	for _, f := range change {
		f(&a)
	}
	return a
}

// live has head 1000 and LIB 900, and blocks from 1 on.
func live(name string, change ...func(*API)) API {
	return api(name, config.Live, append([]func(*API){func(a *API) { a.Head, a.LIB, a.Earliest = 1000, 900, 1 }}, change...)...)
}

// archive serves blocks 1 to 500.
func archive(name string, change ...func(*API)) API {
	return api(name, config.Frozen, append([]func(*API){func(a *API) {
		a.Verified, a.Described, a.Blocks = true, true, ship.Range{Begin: 1, End: 501}
		a.Server.Range = &config.Range{Begin: 2, End: 501}
		a.Paths = pathSet([]string{headerPath, blockInfoPath, rawBlockPath})
	}}, change...)...)
}

func down(a *API)      { a.Good = false }
func full(a *API)      { a.link.slots.take(); a.link.slots.take() }
func elsewhere(a *API) { a.WrongChain = true }
func off(a *API)       { a.Disabled = true }
func priority(n uint32) func(*API) {
	return func(a *API) { a.Priority = n }
}
func head(n uint32) func(*API)     { return func(a *API) { a.Head = n } }
func earliest(n uint32) func(*API) { return func(a *API) { a.Earliest = n } }
func lists(paths ...string) func(*API) {
	return func(a *API) { a.Paths = pathSet(paths) }
}
func unverified(a *API) { a.Verified = false }

func names(list []*API) string {
	var out []string
	for _, a := range list {
		out = append(out, a.Server.Name)
	}
	return strings.Join(out, " ")
}

var start = time.Unix(1_000_000, 0)

func busyNow(a *API) { a.BusyUntil = start.Add(time.Second) }

func TestPlanBlock(t *testing.T) {
	num := func(n uint32) Question { return Question{Num: n, Known: true} }
	id := func(n uint32) Question { return Question{Num: n, ByID: true, Known: true} }
	four := fleetOf(live("X", earliest(500)), live("U", earliest(0)), live("L"), archive("F", lists(headerPath, headerStatePath, blockPath, rawBlockPath)))
	for _, c := range []struct {
		what  string
		fleet *View
		path  string
		q     Question
		rules Rules
		want  string
	}{
		{"the tiers", four, headerStatePath, num(100), Rules{MaxAttempts: 8}, "F L U X"},
		{"live first", four, headerStatePath, num(100), Rules{MaxAttempts: 8, LiveFirst: true}, "L F U X"},
		{"get_block has no F", four, blockPath, num(100), Rules{MaxAttempts: 8}, "L U X"},
		{"a claimed block has no X", four, rawBlockPath, num(100), Rules{MaxAttempts: 8}, "F L U"},
		{"an endpoint that the archive does not list", fleetOf(live("L"), archive("F")), headerStatePath, num(100), Rules{MaxAttempts: 8}, "L"},
		{"block 0", four, rawBlockPath, num(0), Rules{MaxAttempts: 8}, "U L X"},
		{"the end of the archive is not in it", fleetOf(live("L"), archive("F")), rawBlockPath, num(501), Rules{MaxAttempts: 8}, "L"},
		{"the last block of the archive", fleetOf(live("L"), archive("F")), rawBlockPath, num(500), Rules{MaxAttempts: 8}, "F L"},
		{"a node that has not reached the block", fleetOf(live("a", head(850)), live("b")), rawBlockPath, num(880), Rules{MaxAttempts: 8}, "b"},

		{"down, on another chain, disabled, busy", fleetOf(live("a", down), live("b", elsewhere), live("c", off), live("d", busyNow), live("e")),
			rawBlockPath, num(100), Rules{MaxAttempts: 8}, "e"},
		{"an archive that is not verified", fleetOf(live("L"), archive("F", unverified)), rawBlockPath, num(100), Rules{MaxAttempts: 8}, "L"},

		{"the list is cut", fleetOf(live("a"), live("b", priority(1)), live("c", priority(2))), rawBlockPath, num(100), Rules{MaxAttempts: 2}, "a b"},
		{"the last place goes to a live node", fleetOf(archive("f"), archive("g", priority(1)), archive("h", priority(2)), live("a")),
			rawBlockPath, num(100), Rules{MaxAttempts: 2}, "f a"},
		{"a single attempt does not", fleetOf(archive("f"), live("a")), rawBlockPath, num(100), Rules{MaxAttempts: 1}, "f"},
		{"by id a place goes to an archive", fleetOf(live("a"), live("b", priority(1)), archive("f")),
			rawBlockPath, id(100), Rules{MaxAttempts: 2, LiveFirst: true}, "a f"},
		{"by id the only live node keeps its place", fleetOf(live("u", earliest(0)), archive("f", func(a *API) { a.Server.Range.End = 50 }), archive("g", priority(1), func(a *API) { a.Server.Range.End = 60 }), archive("h", priority(2))),
			rawBlockPath, id(100), Rules{MaxAttempts: 2}, "h u"},
		{"by id a single attempt goes to the archive", fleetOf(live("a"), archive("f")), rawBlockPath, id(100), Rules{MaxAttempts: 1, LiveFirst: true}, "f"},
		{"by number it does not", fleetOf(live("a"), archive("f")), rawBlockPath, num(100), Rules{MaxAttempts: 1, LiveFirst: true}, "a"},
		{"who is full takes no place", fleetOf(live("a", full), live("b", priority(1)), live("c", priority(2))), rawBlockPath, num(100), Rules{MaxAttempts: 1}, "b"},
		{"who is full in a better tier is waited for at the end", fleetOf(archive("f", full), live("a"), live("b")), rawBlockPath, num(100), Rules{MaxAttempts: 3}, "f a b"},

		{"reversible: by priority, head", fleetOf(live("a", head(990)), live("b", head(1000)), live("c", head(995), priority(1)), archive("f")),
			rawBlockPath, num(980), Rules{MaxAttempts: 8}, "b a c"},
		{"reversible: those behind come last, by head", fleetOf(live("a", head(950)), live("b", head(960), priority(9)), live("c", head(1000), priority(5))),
			rawBlockPath, num(980), Rules{MaxAttempts: 8}, "c b a"},
		{"reversible: the endpoint has to be listed", fleetOf(live("a", lists(infoPath)), live("b")), rawBlockPath, num(980), Rules{MaxAttempts: 8}, "b"},
		{"reversible: no live node", fleetOf(archive("f")), rawBlockPath, num(980), Rules{MaxAttempts: 8}, ""},
	} {
		if got := names(planBlock(c.fleet, []byte(c.path), c.q, c.rules, 0, start, nil).candidates); got != c.want {
			t.Errorf("%s: %q, %q was due", c.what, got, c.want)
		}
	}
}

func TestRegions(t *testing.T) {
	v := fleetOf(live("a"), live("b", func(a *API) { a.LIB = 950 }, down), archive("f", func(a *API) { a.Blocks.End = 980 }))
	for n, want := range map[uint32]bool{0: true, 900: true, 979: true, 980: false, 1000: false} {
		if got := v.irreversible(n, 0); got != want {
			t.Errorf("block %d is irreversible: %v", n, got)
		}
	}
	if !v.irreversible(985, 985) || v.irreversible(986, 985) {
		t.Error("the LIB of the SHiP side does not count")
	}
}

func TestClaims(t *testing.T) {
	v := fleetOf(archive("f", unverified, down), archive("g", func(a *API) { a.Blocks = ship.Range{Begin: 600, End: 700} }), live("a"))
	for n, want := range map[uint32]bool{1: false, 2: true, 500: true, 501: false, 600: true, 699: true, 700: false} {
		if got := v.claimed(n); got != want {
			t.Errorf("block %d is claimed: %v", n, got)
		}
	}
}

func TestPlanState(t *testing.T) {
	plain := (*API).usable
	for _, c := range []struct {
		what   string
		fleet  *View
		ship   uint32
		usable func(*API) bool
		want   string
	}{
		{"by priority", fleetOf(live("a", priority(2)), live("b", priority(1))), 0, plain, "b a"},
		{"only live nodes that list it", fleetOf(live("a", lists(infoPath)), archive("f", lists("/v1/chain/get_account")), live("b")), 0, plain, "b"},
		{"a node behind is left out", fleetOf(live("a", head(989)), live("b", priority(5))), 0, plain, "b"},
		{"a node at the limit is not", fleetOf(live("a", head(990)), live("b", priority(5))), 0, plain, "a b"},
		{"all are behind what SHiP knows", fleetOf(live("a", head(900)), live("b")), 2000, plain, "a b"},
		{"the closer one is down", fleetOf(live("a", head(900)), live("b", down)), 1000, plain, "a"},
		{"the closer one is busy", fleetOf(live("a", head(900)), live("b", busyNow)), 1000, plain, ""},
		{"a lost push does not move the next", fleetOf(live("a", down, func(a *API) { a.Lost = true }), live("b", priority(1))), 0, (*API).usableOnce, "a b"},
		{"but state calls", fleetOf(live("a", down, func(a *API) { a.Lost = true }), live("b", priority(1))), 0, plain, "b"},
	} {
		got := names(planState(c.fleet, []byte("/v1/chain/get_account"), Rules{Lag: 10}, c.ship, 0, c.usable, start, nil))
		if got != c.want {
			t.Errorf("%s: %q, %q was due", c.what, got, c.want)
		}
	}
}

func TestEqualsTakeTurns(t *testing.T) {
	v := fleetOf(live("a"), live("b"), live("c"), live("d", priority(1)))
	seen := map[string]int{}
	for turn := range uint64(9) {
		list := planState(v, []byte("/v1/chain/get_account"), Rules{}, 0, turn, (*API).usable, start, nil)
		seen[list[0].Server.Name]++
		if names(list[3:]) != "d" {
			t.Errorf("the list is %q", names(list))
		}
	}
	if seen["a"] != 3 || seen["b"] != 3 || seen["c"] != 3 {
		t.Errorf("they came first %v", seen)
	}
}

func TestPlanPush(t *testing.T) {
	v := fleetOf(live("a", head(1005)), live("b"), live("c", down), archive("f"))
	for _, c := range []struct {
		servers []string
		want    string
	}{
		{nil, "a b"}, {[]string{"b"}, "b"}, {[]string{"c", "b", "a"}, "b a"}, {[]string{"c"}, ""}, {[]string{"f", "nobody"}, ""},
	} {
		if got := names(planPush(v, c.servers, nextPrimary(v, nil), start)); got != c.want {
			t.Errorf("%v: %q, %q was due", c.servers, got, c.want)
		}
	}
}

func TestPrimary(t *testing.T) {
	v := fleetOf(live("a"), live("b", priority(1)), live("c"), archive("f", head(5000)))
	var primary *link
	a, b, c := &v.APIs[0], &v.APIs[1], &v.APIs[2]
	for _, step := range []struct {
		what       string
		ha, hb, hc uint32
		down       *API
		want       *API
	}{
		{"the first of equals", 1000, 1000, 1000, nil, a},
		{"one block ahead is not enough", 1000, 1001, 1001, nil, a},
		{"two are", 1000, 1002, 1001, nil, b},
		{"back level", 1002, 1002, 1002, nil, b},
		{"it is down; of equals the lower priority", 1003, 1004, 1003, b, a},
		{"and stays away", 1003, 1004, 1003, nil, a},
		{"all of the others down", 1003, 1004, 1001, a, b},
		{"far ahead", 1003, 1004, 9000, nil, c},
	} {
		a.Head, b.Head, c.Head = step.ha, step.hb, step.hc
		for _, x := range []*API{a, b, c} {
			x.Good = x != step.down
		}
		now := nextPrimary(v, primary)
		if now != step.want.link {
			t.Errorf("%s: it is not %s", step.what, step.want.Server.Name)
		}
		primary = now
	}
	if got := names(planInfo(v, b.link, start)); got != "b c a" {
		t.Errorf("after the primary come %q", got)
	}
	if nextPrimary(fleetOf(live("a", down), archive("f")), nil) != nil {
		t.Error("a node that is down is the primary")
	}
}

func TestOrderByLoad(t *testing.T) {
	// Eight requests that stay: three parts to a, one to b.
	v := fleetOf(live("a", func(a *API) { a.Weight = 3 }), live("b"))
	for i := range v.APIs {
		v.APIs[i].link.slots.setLimit(100)
	}
	for range 8 {
		planBlock(v, []byte(rawBlockPath), Question{Num: 100, Known: true}, Rules{MaxAttempts: 3}, 0, start, nil).candidates[0].link.slots.take()
	}
	if a, b := v.APIs[0].link.slots.used(), v.APIs[1].link.slots.used(); a != 6 || b != 2 {
		t.Errorf("a has %d, b %d", a, b)
	}
}

func TestChunksStayTogether(t *testing.T) {
	v := fleetOf(archive("y", func(a *API) { a.Blocks.End = 1 << 30 }), archive("z", func(a *API) { a.Blocks.End = 1 << 30 }))
	first := map[string]int{}
	for c := range uint32(200) {
		one := names(planBlock(v, []byte(rawBlockPath), Question{Num: c*chunk + 1, Known: true}, Rules{MaxAttempts: 3}, 0, start, nil).candidates)
		two := names(planBlock(v, []byte(rawBlockPath), Question{Num: c*chunk + chunk - 1, Known: true}, Rules{MaxAttempts: 3}, 0, start, nil).candidates)
		if one != two {
			t.Fatalf("chunk %d: %s and %s", c, one, two)
		}
		first[one]++
	}
	if first["y z"] < 60 || first["z y"] < 60 {
		t.Errorf("the chunks are spread %v", first)
	}
}
