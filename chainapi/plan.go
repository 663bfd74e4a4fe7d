package chainapi

import (
	"time"

	"flotilla/gateway/config"
)

// Rules are the settings that decide who is asked.
type Rules struct {
	// LiveFirst asks live nodes before archives.
	LiveFirst bool
	// MaxAttempts bounds the places of a list.
	MaxAttempts int
	// Lag is live_lag_blocks; 0 is off.
	Lag uint32
}

// plan is who may answer a request, in order. What it says of the block decides
// which answers are final.
type plan struct {
	candidates []*API
	// irreversible: the block cannot change; else the first answer counts.
	irreversible bool
	// claimed: some archive has the block, so that it exists.
	claimed bool
}

// The tiers of an irreversible block (seed 003).
const (
	tierF = iota // verified archives that serve it
	tierL        // live nodes whose block log holds it
	tierU        // live nodes that do not tell where theirs begins
	tierX        // live nodes whose log begins above it
	tiers
)

// planBlock is who may answer for a block that was read from a body.
func planBlock(v *View, path []byte, q Question, r Rules, shipLIB uint32, now time.Time, ask *asker) plan {
	p := plan{irreversible: v.irreversible(q.Num, shipLIB)}
	if !p.irreversible {
		p.candidates = planReversible(v, path, q.Num, now, ask)
	} else {
		p.claimed = claimable(path) && v.claimed(q.Num)
		for _, tier := range byTier(v, path, q.Num, p.claimed, r, now) {
			p.candidates = append(p.candidates, order(forBlock, tier, q.Num, 0, ask)...)
		}
	}
	p.candidates = places(p.candidates, q, r.MaxAttempts)
	return p
}

// planReversible is for a block that can still change: only live nodes answer
// for it, those first that have it.
func planReversible(v *View, path []byte, n uint32, now time.Time, ask *asker) []*API {
	var have, behind []*API
	for i := range v.APIs {
		a := &v.APIs[i]
		switch {
		case a.Server.Role != config.Live || !a.candidate(now) || !a.lists(path):
		case a.head() >= n:
			have = append(have, a)
		default:
			behind = append(behind, a)
		}
	}
	return append(order(forReversible, have, n, 0, ask), order(byHead, behind, n, 0, nil)...)
}

// byTier sorts the candidates for an irreversible block into the tiers, in the
// order in which these are asked.
func byTier(v *View, path []byte, n uint32, claimed bool, r Rules, now time.Time) [tiers][]*API {
	var t [tiers][]*API
	for i := range v.APIs {
		a := &v.APIs[i]
		if !a.candidate(now) || !a.lists(path) {
			continue
		}
		if a.Server.Role == config.Frozen {
			if a.Blocks.Contains(n) && string(path) != blockPath {
				t[tierF] = append(t[tierF], a)
			}
			continue
		}
		switch {
		case a.head() < n:
		case a.Earliest == 0:
			t[tierU] = append(t[tierU], a)
		case a.Earliest <= n:
			t[tierL] = append(t[tierL], a)
		case !claimed:
			t[tierX] = append(t[tierX], a)
		}
	}
	if r.LiveFirst {
		t[tierF], t[tierL] = t[tierL], t[tierF]
	}
	return t
}

// places cuts a list to the attempts that there are. Candidates without a free
// slot are skipped later without an attempt, so they take no place.
//
// One place is kept for a live node, so that a real nodeos writes the final
// error; and for a request by id one for an archive whose Unknown Block is the
// answer, or else a wrong id would be retried for ever.
func places(list []*API, q Question, attempts int) []*API {
	var cut []*API
	last, taken := -1, 0
	for _, a := range list {
		if taken == attempts {
			break
		}
		cut = append(cut, a)
		if !a.link.slots.full() {
			taken++
			last = len(cut) - 1
		}
	}
	if last < 0 || len(cut) == len(list) {
		return cut
	}
	live := func(a *API) bool { return a.Server.Role == config.Live }
	if attempts >= 2 && count(cut, live) == 0 {
		if a := first(list, live); a != nil {
			cut[last] = a
		}
	}
	final := func(a *API) bool { return a.final(q.Num) }
	if a := first(list, final); q.ByID && a != nil && count(cut, final) == 0 {
		if last > 0 && live(cut[last]) && count(cut, live) == 1 {
			last--
		}
		cut[last] = a
	}
	return cut
}

func count(list []*API, is func(*API) bool) (n int) {
	for _, a := range list {
		if is(a) {
			n++
		}
	}
	return n
}

func first(list []*API, is func(*API) bool) *API {
	for _, a := range list {
		if is(a) {
			return a
		}
	}
	return nil
}

// planState is who may answer a state call, an exec call, and a block request
// without a readable block. Nodes too far behind the fleet's head are left out
// while a closer one is up. turn is how many such requests there were; usable is
// that of the class.
func planState(v *View, path []byte, r Rules, shipHead uint32, turn uint64, usable func(*API) bool, now time.Time, ask *asker) []*API {
	head := shipHead
	for i := range v.APIs {
		if a := &v.APIs[i]; a.Server.Role == config.Live && a.usable() {
			head = max(head, a.head())
		}
	}
	lags := func(a *API) bool { return r.Lag > 0 && uint64(a.head())+uint64(r.Lag) < uint64(head) }
	var serving []*API
	closer := false
	for i := range v.APIs {
		if a := &v.APIs[i]; a.Server.Role == config.Live && usable(a) && a.lists(path) {
			serving = append(serving, a)
			closer = closer || !lags(a)
		}
	}
	var list []*API
	for _, a := range serving {
		if !a.busy(now) && !(closer && lags(a)) {
			list = append(list, a)
		}
	}
	return order(forState, list, 0, turn, ask)
}

// planInfo is who may answer get_info: the primary, then the other live nodes
// by head.
func planInfo(v *View, primary *link, now time.Time) []*API {
	var rest []*API
	var list []*API
	for i := range v.APIs {
		a := &v.APIs[i]
		switch {
		case a.Server.Role != config.Live || !a.candidate(now):
		case a.link == primary:
			list = append(list, a)
		default:
			rest = append(rest, a)
		}
	}
	return append(list, order(byHead, rest, 0, 0, nil)...)
}

// planPush is where a push may go: the push servers in the configured order,
// else as for get_info.
func planPush(v *View, servers []string, primary *link, now time.Time) (list []*API) {
	if len(servers) == 0 {
		return planInfo(v, primary, now)
	}
	for _, name := range servers {
		for i := range v.APIs {
			if a := &v.APIs[i]; a.Server.Name == name && a.Server.Role == config.Live {
				if a.usableOnce() && !a.busy(now) {
					list = append(list, a)
				}
				break
			}
		}
	}
	return list
}

// nextPrimary is the node that get_info is asked of: the usable live node with
// the highest head. It stays until it is down, or another is two blocks ahead,
// so that a client does not see the head step back between calls.
func nextPrimary(v *View, now *link) *link {
	var best, present *API
	for i := range v.APIs {
		a := &v.APIs[i]
		if a.Server.Role != config.Live || !a.usable() {
			continue
		}
		if a.link == now {
			present = a
		}
		if best == nil || a.head() > best.head() || a.head() == best.head() && a.Priority < best.Priority {
			best = a
		}
	}
	switch {
	case best == nil:
		return nil
	case present != nil && uint64(best.head()) < uint64(present.head())+2:
		return now
	}
	return best.link
}
