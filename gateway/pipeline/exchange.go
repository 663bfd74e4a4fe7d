package pipeline

import (
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/ship"
)

// Cause is why an Exchange goes up through the stages.
type Cause int

const (
	// Received: the client sent the message in Exchange.Message.
	Received Cause = iota
	// Connect: a session wants its first upstream.
	Connect
	// Replace: a session wants another upstream for its present request.
	Replace
)

// None is an upstream index that stands for no upstream.
const None = -1

// Exchange is what one client asked for, how far it got, and what the stages
// have decided about it. It belongs to its session; nothing in it is safe for
// concurrent use.
type Exchange struct {
	// Session numbers the sessions of a listener from 1 on.
	Session uint64
	// Client is who asks.
	Client Client
	// Stitched: the session is in front of a range-split fleet.
	Stitched bool
	// Cause, View, Tip and Now are set before each way up; all but Cause before
	// each batch of results too. Tip is the fleet's, with numbers of 0 while it
	// is unknown.
	Cause Cause
	View  *fleet.View
	Tip   *fleet.Pair
	Now   time.Time

	// Message is the client's message, valid during the way up only.
	Message []byte
	// Request is Message decoded (decode).
	Request ship.Request

	Position
	Placement
	Link Link
	Uplink
	Budget
}

// Client is what is known of a client from its handshake.
type Client struct {
	// Address is the IP address without the port.
	Address string
	// Headers are those that the listener's policy asked for, by lower-case
	// name; nil is none.
	Headers map[string]string
}

// Position is the client's request and how far it got.
type Position struct {
	// Asked: the client has made a request; Want is the last one.
	Asked bool
	Want  ship.BlocksRequest
	// Credit is how many more results the client takes (spec "ship": C).
	Credit uint32
	// Cursor is the next block that the client expects (K).
	Cursor uint32
	// Fresh: nothing was passed on for this request yet.
	Fresh bool

	// Delivered are the reversible blocks that the client has, and the newest.
	Delivered Positions
	// Window: results below Floor may be repetitions of what the client has
	// (the dedup window, S15).
	Window bool
	Floor  uint32

	// HeadSent and LIBSent are the highest that the client was told (S32).
	HeadSent, LIBSent ship.Pos
	// Settled is the newest delivered block that is known to be irreversible: the
	// node that sent it, or one that went on from there, said so. LIBSent may be
	// above it while the client gets blocks of a fork that nobody follows now.
	Settled uint32
}

// Forget takes back what is known of delivered blocks from number n on.
func (p *Position) Forget(n uint32) {
	p.Delivered.Forget(n)
	p.Settled = min(p.Settled, max(n, 1)-1)
}

// Finished reports whether the request is satisfied, or empty.
func (p *Position) Finished() bool { return p.Cursor >= p.Want.End }

// Block is the block that an upstream is wanted for; NoBlock without a request.
func (p *Position) Block() uint32 {
	if !p.Asked || p.Empty() {
		return fleet.NoBlock
	}
	return p.Cursor
}

// Empty reports whether the request can never be sent anything: it ends at or
// below its start, and no position lies below both that a node could rewind to
// (S8).
func (p *Position) Empty() bool {
	q := &p.Want
	if q.End > q.Start {
		return false
	}
	for _, have := range q.Have {
		if have.Num < q.End {
			return false
		}
	}
	return true
}

// Placement is where the request may go and where it goes.
type Placement struct {
	// Plan is what is to be done in front of a range-split fleet (plan).
	Plan Plan
	// Desperate: upstreams that are offline may be tried, as a hold does now and
	// then (P14).
	Desperate bool
	// Candidates are the upstreams that may take the session (plan), and Pick
	// the chosen one (select): an index into View.Upstreams, or None.
	Candidates []Candidate
	Pick       int
	// LegEnd is where the leg on Pick ends, exclusive (select).
	LegEnd uint32
	// Unwanted: the policy wants this request anywhere but on Current (select).
	Unwanted bool
	// Current is the upstream of the link, or of the dial in progress; None.
	Current int
	// Retained and Standby are upstreams on which the session has another slot:
	// that of a link that has ended and is not replaced yet, and that of the link
	// which stands by for the next leg. None.
	Retained, Standby int
	// Hard are the upstreams that are not picked at all for a while, by index;
	// Soft is the upstream that others are preferred to, or None (3.4).
	Hard []Exclusion
	Soft int
	// SeamLeft are the upstreams left at this block because they did not
	// continue what the client has.
	SeamLeft []int
}

// Candidate is an upstream that may be picked.
type Candidate struct {
	Index  int
	Online bool
	// Rank is the plan's order; lower is better. In a pool it is 2 when the
	// upstream does not cover the block as the fleet can, plus 1 when it is stale
	// or lags (3.2); in a range-split fleet see package plan.
	Rank int
	// Run is the end of what it can serve from the cursor on, exclusive;
	// fleet.NoBlock in a pool.
	Run uint32
}

// Own is how many slots the session has on upstream i.
func (p *Placement) Own(i int) int {
	n := 0
	for _, has := range [...]int{p.Current, p.Retained, p.Standby} {
		if has == i {
			n++
		}
	}
	return n
}

// Plan is what is to be done for the cursor of a request (P1).
type Plan struct {
	Do Decision
	// Why and Bounded are those of a Hold: what is in the way, and whether it
	// ends with the session when gap_wait is over (P8).
	Why     fleet.HoldReason
	Bounded bool
	// Again is when an exclusion or a quarantine ends that is in the way; zero
	// for none.
	Again time.Time
}

// Decision is what a Plan comes to.
type Decision int

// The decisions.
const (
	// Serve: one of the candidates gets the request.
	Serve Decision = iota
	// Rest: nothing is asked, or all of it was sent.
	Rest
	// Hold: nobody can serve the block now.
	Hold
	// Wait: nobody should, yet: it is above the gate.
	Wait
	// Gap: nobody ever will.
	Gap
)

// Exclusion keeps an upstream from being picked until a moment. One for a node
// that was found down ends early, when the node is seen online again.
type Exclusion struct {
	Until time.Time
	Down  bool
	// Busy: the upstream refused the session with 503.
	Busy bool
}

// Excluded reports whether upstream i is not to be picked now.
func (x *Exchange) Excluded(i int, now time.Time) bool {
	if i >= len(x.Hard) || !now.Before(x.Hard[i].Until) {
		return false
	}
	return !x.Hard[i].Down || !x.View.Upstreams[i].Online
}

// Exclude keeps upstream i from being picked.
func (p *Placement) Exclude(i int, e Exclusion) {
	for len(p.Hard) <= i {
		p.Hard = append(p.Hard, Exclusion{})
	}
	p.Hard[i] = e
}

// Elsewhere reports whether an upstream other than the link's could serve the
// cursor now (S29).
func (x *Exchange) Elsewhere() bool {
	need := fleet.NeedOf(&x.Want)
	if !x.Stitched {
		return x.other(func(i int) bool { return x.View.Eligible(i, x.Cursor, need, x.Now) })
	}
	found := false
	x.View.Holders(x.Cursor, need, func(h fleet.Holder) bool {
		found = x.free(h.Index) && !x.View.Upstreams[h.Index].Quarantined(x.Cursor, x.Now)
		return !found
	})
	return found
}

// Movable reports whether an upstream other than the link's could take the
// session now, with its request if it has an unfinished one (F20).
func (x *Exchange) Movable() bool {
	if x.Asked && !x.Finished() {
		return x.Elsewhere()
	}
	return x.other(func(int) bool { return true })
}

// other reports whether an upstream other than the link's can be picked, and
// suits.
func (x *Exchange) other(suits func(i int) bool) bool {
	for i := range x.View.Upstreams {
		if x.free(i) && suits(i) {
			return true
		}
	}
	return false
}

// free reports whether upstream i is another one than the link's and can be
// picked.
func (x *Exchange) free(i int) bool {
	u := &x.View.Upstreams[i]
	if u.Frozen() && (!x.Stitched || x.Gated(x.Cursor)) {
		return false
	}
	if x.Behind(x.Cursor, u.Live.LIB()) {
		return false
	}
	return i != x.Link.Upstream && u.Routable() && u.Online && !u.FullBeside(x.Own(i)) && !x.Excluded(i, x.Now)
}

// Behind reports whether block n would have to be taken on trust from a node whose
// LIB is lib: the client was told that n is irreversible, and for the node it is
// not yet, so that the node may be on a branch that is dead for good. The client
// waits for one that knows better, where it can be held at all.
func (x *Exchange) Behind(n, lib uint32) bool {
	return x.View.Holds && lib < n && n <= x.LIBSent.Num
}

// Gate is the block up to which archives are asked: the fleet's head, or its
// LIB for irreversible_only; 0 while it is unknown.
func (x *Exchange) Gate() uint32 {
	if x.Want.Irreversible {
		return x.Tip.LIB.Num
	}
	return x.Tip.Head.Num
}

// Gated reports whether an archive must not be asked for block n yet (P5).
func (x *Exchange) Gated(n uint32) bool {
	gate := x.Gate()
	return gate == 0 || n > gate
}

// Link is the session's connection to an upstream as the stages see it.
type Link struct {
	// Up: there is a connection, to Upstream.
	Up       bool
	Upstream int
	// Frozen: Upstream is an archive, whose results are held to its contract.
	Frozen bool
	// Requested: a request was sent on it, for blocks up to End (exclusive).
	Requested    bool
	End          uint32
	Irreversible bool
	// Cursor is the next block that the upstream sends, when Exact. Otherwise
	// it is somewhere from Cursor up to the request's start (S15).
	Cursor uint32
	Exact  bool
	// First: no result came since the request was sent. Seam: the request goes
	// on where another link ended.
	First, Seam bool
	// Head and LIB are those of its last result.
	Head, LIB uint32
	// KeepAlives: head-only results were seen on it, so more may come unasked.
	KeepAlives bool
	// Window is the most credit that the client has had since the request.
	Window uint32
	// OnlyV0: the node answers status v0 only, which keep-alives go with.
	OnlyV0 bool
}

// Idle reports whether nothing of the link's request can still arrive, so that
// the same connection can take another one. before is the client's credit
// before that other request came (S11).
func (l *Link) Idle(before uint32) bool {
	return before == 0 || l.Free()
}

// Free reports whether nothing of the link's request can still arrive, whatever
// the client acks.
func (l *Link) Free() bool {
	if !l.Requested {
		return true
	}
	if !l.Exact || l.Cursor < l.End {
		return false
	}
	return l.Frozen || uint64(l.End) <= uint64(l.LIB)+1 && !l.KeepAlives && !l.OnlyV0
}

// Uplink is what is to be sent to the upstream.
type Uplink struct {
	// Ack is credit that the upstream has not been told of yet: the client's
	// acks and refunds for repetitions, summed.
	Ack uint32
	// Relink tells what a new request means for the link (forward).
	Relink Relink
	// Pending are messages of unknown variants, in order, for as long as no
	// link takes them. PendingBytes counts at least one byte each (S34).
	Pending      [][]byte
	PendingBytes int
	// UnknownAt is when one of them was last sent to a link.
	UnknownAt time.Time
}

// Relink is what happens to the link when a request comes.
type Relink int

const (
	// KeepLink: nothing is to be sent.
	KeepLink Relink = iota
	// SendRequest: the request goes out on the link.
	SendRequest
	// Redial: a new link to the same upstream.
	Redial
	// Move: a new link to Placement.Pick.
	Move
)

// Budget counts the failures at one block (F8).
type Budget struct {
	// Failed are the upstreams that failed at StuckAt, one entry each time.
	Failed  []int
	StuckAt uint32
	// Left are those whose link ended at LeftAt without a strike, although they
	// owed that block. It costs nothing of the budget; others come first.
	Left   []int
	LeftAt uint32
}

// FailedAt is how often upstream i has failed at block n.
func (b *Budget) FailedAt(i int, n uint32) int {
	if b.StuckAt != n {
		return 0
	}
	return count(b.Failed, i)
}

// InVainAt is how often upstream i was asked for block n in vain: it has failed,
// or its link ended otherwise.
func (b *Budget) InVainAt(i int, n uint32) int {
	times := b.FailedAt(i, n)
	if b.LeftAt == n {
		times += count(b.Left, i)
	}
	return times
}

func count(list []int, i int) int {
	n := 0
	for _, v := range list {
		if v == i {
			n++
		}
	}
	return n
}

// Leave notes that the link to upstream i ended without a strike while it owed
// block n. Twice are enough to remember.
func (b *Budget) Leave(i int, n uint32) {
	if b.LeftAt != n {
		b.LeftAt, b.Left = n, b.Left[:0]
	}
	if count(b.Left, i) < 2 {
		b.Left = append(b.Left, i)
	}
}

// Through notes that block n has got through.
func (b *Budget) Through(n uint32) {
	if len(b.Failed) > 0 && n >= b.StuckAt {
		b.Failed = b.Failed[:0]
	}
	if len(b.Left) > 0 && n >= b.LeftAt {
		b.Left = b.Left[:0]
	}
}

// Result is one block result on its way down.
type Result struct {
	ship.BlockHeader
	// Parts are the payload fields that it has; all of them when the message
	// does not decode far enough to tell.
	Parts ship.Parts
	// Size is the length of the message, in bytes.
	Size int
	// Kind and Num are what the result stands for (forward, S22).
	Kind Kind
	Num  uint32
	// Violation is the rule that a result of an archive breaks; "" for none.
	Violation fleet.Violation
	// Uncredited: the client had no credit left for it (S20).
	Uncredited bool
	// Fork, Jump and Broken are what dedup saw: a block number again with
	// another id, a number above the expected one, a block that does not
	// continue the last one and is passed on all the same.
	Fork, Jump, Broken bool
	// Patched: Head and LIB were changed and are to be written into the frame
	// (rewrite).
	Patched bool
	// FillPrev: the block before is missing and Prev is to be put in (rewrite).
	FillPrev bool
}

// Kind is what a block result stands for.
type Kind int

const (
	// Block names a block.
	Block Kind = iota
	// Idless stands for a block that the node has no id for; it takes the
	// block's place all the same.
	Idless
	// KeepAlive carries head and LIB only and stands for no block.
	KeepAlive
)
