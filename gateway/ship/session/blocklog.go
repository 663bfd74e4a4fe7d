package session

import (
	"time"

	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/stages/forward"
	"flotilla/stages/plan"
)

// maxMovePause is the longest pause between two moves in a row off archives
// without a block log (P20).
const maxMovePause = 60 * time.Second

// lacksBlocks reports whether the session wants blocks and is on an archive that
// has none.
func (s *Session) lacksBlocks(l *link) bool {
	return s.x.Link.Frozen && s.x.Link.Requested && s.x.Want.FetchBlock && s.x.View.Upstreams[l.upstream].NoBlockLog
}

// withoutBlock deals with a result of an archive that lacks the block. It
// reports whether the session leaves the archive for another upstream that has
// blocks, and the result is not to be passed on.
func (s *Session) withoutBlock(l *link, r *pipeline.Result) (leaves bool) {
	if !forward.WithoutBlock(&s.x, r) {
		if r.Parts.Block {
			s.leg.moves = 0
		}
		return false
	}
	if !l.blockless {
		l.blockless = true
		if !s.x.View.Upstreams[l.upstream].NoBlockLog {
			s.Fleet.LacksBlocks(l.upstream, r.This.Num)
			s.refresh()
		}
		if leaves = s.blocksElsewhere(l); !leaves {
			s.shorten(l)
		}
	}
	if leaves {
		l.fail(fleet.EndNoBlockLog)
		return true
	}
	s.x.View.Upstreams[l.upstream].Live.WithoutBlock.Add(1)
	return false
}

// shorten ends the leg on an archive without a block log where another upstream
// can take over, although the archive was asked for more.
func (s *Session) shorten(l *link) {
	if end, ok := plan.Leg(&s.x, l.upstream); ok && end < s.x.Link.End {
		s.x.Link.End, l.short = end, true
	}
}

// blocksElsewhere reports whether another upstream that has blocks could serve
// the cursor now, and the session may move to it: the first time at once, later
// after a growing pause.
func (s *Session) blocksElsewhere(l *link) bool {
	if s.leg.moves > 0 && s.x.Now.Before(s.leg.nextMove) {
		return false
	}
	s.planLeg(false)
	if s.x.Plan.Do != pipeline.Serve || s.x.Pick == l.upstream || s.x.View.Upstreams[s.x.Pick].NoBlockLog {
		return false
	}
	s.leg.nextMove = s.x.Now.Add(min(time.Second<<min(s.leg.moves, 6), maxMovePause))
	s.leg.moves++
	return true
}
