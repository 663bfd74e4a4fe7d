package forward

import (
	"cmp"
	"slices"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
)

// maxHave is how many positions a resumed request carries at most (S14).
const maxHave = 1024

// take makes the client's request the one in force and decides which link
// carries it (S7 to S11).
func take(x *pipeline.Exchange) {
	before := x.Credit
	q := &x.Request.Blocks
	x.Asked, x.Want = true, *q
	x.Credit, x.Cursor, x.Fresh = q.MaxInFlight, q.Start, true
	x.Forget(q.Start)
	x.Delivered.MakeRoom()
	claim(x, q)
	x.Window, x.Floor = false, 0
	x.Failed, x.Left = x.Failed[:0], x.Left[:0]
	x.SeamLeft = x.SeamLeft[:0]

	if x.Stitched {
		// The session plans its legs anew; results of the old request must not
		// reach the client any more.
		if x.Link.Up && !x.Link.Idle(before) {
			x.Relink = pipeline.Redial
		}
		x.Link.Requested = false
		x.Ack = 0
		return
	}
	switch {
	case x.Empty():
		// Nothing is sent for it, but the node has to stop the one before.
		switch {
		case !x.Link.Up || !x.Link.Requested:
			x.Relink = pipeline.KeepLink
		case x.Link.Idle(before):
			x.Relink = pipeline.SendRequest
		default:
			x.Relink = pipeline.Redial
		}
	case x.Current != pipeline.None && better(x):
		x.Relink = pipeline.Move
	case !x.Link.Up:
		// The link that is being dialed gets the request when it is up.
		x.Relink = pipeline.KeepLink
	case x.Link.Idle(before):
		x.Relink = pipeline.SendRequest
	default:
		x.Relink = pipeline.Redial
	}
}

// claim takes in which blocks the client says it has. Where they are of a fork,
// the node of this link leads the client out of it, and so has any later one.
// Up to Settled all nodes agree, and the first result does it.
func claim(x *pipeline.Exchange, q *ship.BlocksRequest) {
	if len(q.Have) == 0 {
		return
	}
	var all []ship.Pos
	for _, p := range q.Have {
		if p.Num >= q.Start {
			continue // nodes do not look at these (N2)
		}
		if have := x.Delivered.Find(p.Num); have != nil && have.ID != p.ID {
			x.Delivered.Forget(p.Num)
		}
		if p.Num > x.Settled {
			all = append(all, p)
		}
	}
	for i := range x.Delivered.Len() {
		all = append(all, *x.Delivered.At(i))
	}
	slices.SortStableFunc(all, func(a, b ship.Pos) int { return cmp.Compare(a.Num, b.Num) })
	x.Delivered.Forget(0)
	for i := range all {
		x.Delivered.Add(&all[i])
	}
}

// better is the reroute check: the pick serves the request where the present
// upstream does not, or is near the head where that lags. Nothing else moves a
// request (S9), but a policy that drops the present upstream for it.
func better(x *pipeline.Exchange) bool {
	if x.Pick == pipeline.None || x.Pick == x.Current {
		return false
	}
	if x.Unwanted {
		return true
	}
	return suits(x, x.Pick) > suits(x, x.Current)
}

func suits(x *pipeline.Exchange, i int) int {
	n := 0
	if x.View.Upstreams[i].Routable() && x.View.Eligible(i, x.Cursor, fleet.NeedOf(&x.Want), x.Now) {
		n += 2
	}
	if !x.View.Lagging(i, x.Cursor, x.Tip.Head.Num) {
		n++
	}
	return n
}

// Build is the request that a link gets: the client's, from where the client
// is now, with the credit that is left (S13, S14). It stays valid until the
// client's next request. The caller sends it, and then calls Sent.
func Build(x *pipeline.Exchange) ship.BlocksRequest {
	q := x.Want
	q.MaxInFlight = x.Credit
	if x.Stitched {
		q.End = x.LegEnd
	}
	switch {
	case x.Link.Frozen:
		q.Start, q.Have = x.Cursor, nil
		return q
	case x.Fresh && x.Stitched:
		q.Have = known(&x.View.Upstreams[x.Link.Upstream], &q)
		return q
	case x.Fresh:
		return q
	}
	q.Start, q.Have = x.Cursor, nil
	if q.Irreversible {
		return q
	}
	for i := range x.Delivered.Len() {
		if p := x.Delivered.At(i); p.Num > x.Settled && p.Num < x.Cursor {
			q.Have = append(q.Have, *p)
		}
	}
	q.Have = q.Have[max(0, len(q.Have)-maxHave):]
	return q
}

// known are the positions of a request that an upstream can judge: below its
// start, and not below the first block that it has (S14).
func known(u *fleet.Upstream, q *ship.BlocksRequest) (have []ship.Pos) {
	for _, p := range q.Have {
		if p.Num < q.Start && u.CoversIDs(p.Num) {
			have = append(have, p)
		}
	}
	return have
}

// Sent notes in the exchange that q has gone out on the link. seam tells that
// it goes on where another link ended.
func Sent(x *pipeline.Exchange, q *ship.BlocksRequest, seam bool) {
	l := &x.Link
	l.Requested, l.End, l.Irreversible = true, q.End, q.Irreversible
	l.First, l.Seam = true, seam
	l.Window = q.MaxInFlight
	l.Cursor, l.Exact = q.Start, true
	for _, p := range q.Have {
		if p.Num < l.Cursor {
			l.Cursor, l.Exact = p.Num, false
		}
	}
	// What was acked so far is in the request's credit.
	x.Ack = 0
	if !x.Fresh && (seam || len(q.Have) > 0) {
		x.Window, x.Floor = true, x.Cursor
	}
}
