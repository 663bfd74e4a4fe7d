package fleet

import (
	"bytes"
	"fmt"

	"flotilla/gateway/ship"
)

func (o *owner) offline(i int) {
	u := &o.upstreams[i]
	u.Online, u.Late, u.ChainID = false, false, nil
	o.dirty = true
}

// late takes in that the status of upstream i is overdue.
func (o *owner) late(i int) {
	if u := &o.upstreams[i]; u.Online && !u.Late {
		u.Late, o.dirty = true, true
	}
}

// status takes an accepted, decoded status of upstream i.
func (o *owner) status(i int, s *ship.Status) {
	u := &o.upstreams[i]
	if u.Removed {
		return
	}
	if u.Late {
		u.Late, o.dirty = false, true
	}
	if s.Head.Num == 0 {
		return
	}
	if reason := o.chainMismatch(i, s); reason != "" {
		if o.private[i].warned.chain != reason {
			o.f.log.Warn("an upstream is kept offline: "+reason, "server", u.Server.Name)
		}
		o.private[i].warned.chain = reason
		if u.Online {
			o.offline(i)
		}
		return
	}
	o.warnMissingChain(i, s)
	was := *u
	if !u.Online || s.Head.Num < o.private[i].told {
		// Back after an absence, or set back: what it told of before says
		// nothing of what it is now.
		u.Live.told.reset()
	}
	u.Live.told.raise(&s.Head, capped(&s.Head, &s.LIB), u.Live)
	o.private[i].told = u.Live.told.headNum()
	if u.NoBlockLog && (!was.Online || was.Head != s.Head || was.LIB != s.LIB || was.Trace != s.Trace || was.ChainState != s.ChainState || was.Finality != s.Finality) {
		// What it has now may be another log.
		u.NoBlockLog, o.dirty = false, true
		o.f.log.Info("an archive is back or has changed; it is asked for blocks again", "server", u.Server.Name)
	}
	u.hear(s)
	if s.HasChainID && (u.ChainID == nil || *u.ChainID != s.ChainID) {
		id := s.ChainID
		u.ChainID = &id
	}
	if was.Online != u.Online || was.Reported != u.Reported || was.ChainID != u.ChainID || was.StatusV1 != u.StatusV1 {
		o.dirty = true
	}
	if was.Head != u.Head || was.LIB != u.LIB || was.Trace != u.Trace || was.ChainState != u.ChainState || was.Finality != u.Finality {
		o.onward = true
	}
}

// chainMismatch says why a status keeps its node offline (M8); "" when it
// does not.
func (o *owner) chainMismatch(i int, s *ship.Status) string {
	pinned := (*ship.ID)(o.f.Config().ChainID)
	switch {
	case !s.HasChainID && pinned != nil && o.f.Config().RequireChainID:
		return "its status names no chain_id and require_chain_id is on"
	case !s.HasChainID:
		return ""
	case pinned != nil && s.ChainID != *pinned:
		return fmt.Sprintf("it is on chain %s, the listener on %s", s.ChainID, *pinned)
	case pinned != nil:
		return ""
	}
	for j := range o.upstreams {
		if u := &o.upstreams[j]; j != i && u.Online && u.ChainID != nil && *u.ChainID != s.ChainID {
			return fmt.Sprintf("it is on chain %s, %s on %s", s.ChainID, u.Server.Name, *u.ChainID)
		}
	}
	return ""
}

func (o *owner) warnMissingChain(i int, s *ship.Status) {
	const missing = "missing"
	switch w := &o.private[i].warned; {
	case s.HasChainID:
		w.chain = ""
	case o.f.Config().ChainID != nil && w.chain != missing:
		w.chain = missing
		o.f.log.Warn("an upstream is too old to name its chain_id, which therefore cannot be checked", "server", o.upstreams[i].Server.Name)
	}
}

func (o *owner) abi(i int, a *ship.ABI) {
	u := &o.upstreams[i]
	if u.Removed || u.ABI != nil && bytes.Equal(u.ABI.Text, a.Text) {
		return
	}
	u.ABI, o.dirty = a, true
	if !a.Compatible() && o.private[i].warned.incompatible != a.Fingerprint {
		o.private[i].warned.incompatible = a.Fingerprint
		o.f.log.Warn("the ABI of an upstream lists other messages than this gateway knows", "server", u.Server.Name, "fingerprint", a.Fingerprint)
	}
}
