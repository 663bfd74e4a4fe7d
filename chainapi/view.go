package chainapi

import (
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/ship"
)

// Fleet is what the port needs to know of the SHiP side of its listener.
type Fleet interface {
	View() *fleet.View
	// Changed is closed when a view newer than the present one is there.
	Changed() <-chan struct{}
	// Pair is the fleet's head and LIB, each with the number 0 while unknown.
	Pair() *fleet.Pair
}

// View is an immutable snapshot of what is known of a listener's upstream APIs,
// in the order of the configuration.
type View struct {
	APIs []API
	// claims are the blocks that archives are said to have.
	claims []ship.Range
}

// API is what was known of one upstream API when its View was published.
type API struct {
	// Server is the node as the configuration names it.
	Server *config.Server
	// Priority and Weight are those in effect.
	Priority, Weight uint32
	// Good: probes are answered, and no request has failed since.
	Good bool
	// Lost: Good is false only because an exec call or a push was lost after it
	// was sent.
	Lost bool
	// WrongChain: the node is on another chain than the listener.
	WrongChain bool
	// Disabled by an operator.
	Disabled bool
	// BusyUntil is when a node that answered 503 is asked again.
	BusyUntil time.Time

	// Head, LIB and Earliest are those of the last good probe of a live node, 0
	// before that. Earliest is 0 also for nodes that do not report it.
	Head, LIB, Earliest uint32
	Version             string
	// Verified: an archive has the blocks that its SHiP endpoint has.
	Verified bool
	// Blocks and GetBlock are what an archive says of itself.
	Blocks    ship.Range
	GetBlock  string
	Described bool
	// Paths are the endpoints that the node lists; nil while unknown.
	Paths map[string]struct{}

	// index is the place in the configuration.
	index int
	// shipHead is the head of the node's last SHiP status; live tells that of
	// what sessions stream. live is nil without SHiP.
	shipHead uint32
	live     *fleet.Live
	link     *link
}

// Up is what operators see: probes are good and the chain is right.
func (a *API) Up() bool { return a.Good && !a.WrongChain }

// usable reports whether the API may be asked at all.
func (a *API) usable() bool {
	return a.Up() && !a.Disabled && (a.Server.Role == config.Live || a.Verified)
}

// usableOnce is usable for exec calls and pushes. That one of them was lost does
// not move the next one to another node: who is asked for them is the
// operator's order, and a node that is gone fails at once.
func (a *API) usableOnce() bool {
	return a.usable() || a.Lost && !a.WrongChain && !a.Disabled && a.Server.Role == config.Live
}

// candidate reports whether the API may be asked now.
func (a *API) candidate(now time.Time) bool { return a.usable() && !a.busy(now) }

// busy reports whether the API is skipped because it answered that it is busy.
func (a *API) busy(now time.Time) bool { return now.Before(a.BusyUntil) }

// lists reports whether the API serves a path. A live node that does not tell
// is taken to serve every one; an archive that does not, none.
func (a *API) lists(path []byte) bool {
	if a.Paths == nil {
		return a.Server.Role == config.Live
	}
	_, ok := a.Paths[string(path)]
	return ok
}

// head is the head for routing: the highest that is known of the node, by
// probes, by SHiP, and by what sessions stream from it.
func (a *API) head() uint32 {
	h := max(a.Head, a.shipHead)
	if a.live != nil {
		h = max(h, a.live.Head())
	}
	return h
}

// final reports whether the archive's Unknown Block is the answer to a request
// for block n by id: it holds the one block n that there is. Past the end of
// its declared range it may hold blocks of a fork that the fleet has left.
func (a *API) final(n uint32) bool {
	return a.Server.Role == config.Frozen && a.Verified && a.Blocks.Contains(n) &&
		(a.Server.Range == nil || n < a.Server.Range.End)
}

// claimed reports whether an archive is said to have block n.
func (v *View) claimed(n uint32) bool {
	for _, r := range v.claims {
		if r.Contains(n) {
			return true
		}
	}
	return false
}

// claim is the blocks that an archive is said to have: those it serves once
// that is verified, before that the declared ones.
func (a *API) claim() ship.Range {
	switch {
	case a.Server.Role != config.Frozen:
	case a.Verified:
		return a.Blocks
	case a.Server.Range != nil:
		return ship.Range(*a.Server.Range)
	}
	return ship.Range{}
}

// lib is the highest LIB that a usable live node reported.
func (v *View) lib() (lib uint32) {
	for i := range v.APIs {
		if a := &v.APIs[i]; a.Server.Role == config.Live && a.usable() {
			lib = max(lib, a.LIB)
		}
	}
	return lib
}

// irreversible reports whether block n cannot change any more: it is at or
// below the fleet's LIB, or a verified archive, whose log holds only such
// blocks, serves it.
func (v *View) irreversible(n, shipLIB uint32) bool {
	if n <= max(shipLIB, v.lib()) {
		return true
	}
	for i := range v.APIs {
		if a := &v.APIs[i]; a.Server.Role == config.Frozen && a.Verified && a.Blocks.Contains(n) {
			return true
		}
	}
	return false
}
