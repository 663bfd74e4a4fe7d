package fleet

import (
	"fmt"

	"flotilla/gateway/ship"
)

// warnings remembers what was said of an upstream, so that it is said once.
type warnings struct {
	chain        string // what the last chain_id warning was about
	incompatible string // the fingerprint of the ABI that was warned of
	otherABI     string // the same, for one that differs from that of the fleet
	mismatch     string // the declared and reported ranges that were warned of
	frozen       bool   // a live node that looks like an archive
	moved        bool   // an archive that moved
	aboveLIB     bool   // an archive with blocks above LIB
	end          uint32 // the end of an archive when it last reported
}

// hint tells an operator what a view shows of a wrong configuration or a wrong
// node, each thing once (M7, M19).
func (o *owner) hint(v *View) {
	lib, known := o.f.liveLIB(v)
	for i := range v.Upstreams {
		u, w := &v.Upstreams[i], &o.private[i].warned
		switch {
		case u.Removed:
			continue
		case !u.Frozen():
			o.hintLive(u, w)
		case u.Reported:
			o.hintArchive(u, w)
			if known && u.lastBlock() > lib && !w.aboveLIB {
				w.aboveLIB = true
				o.f.log.Warn("frozen upstream serves blocks above the fleet LIB", "server", u.Server.Name, "last_block", u.lastBlock(), "lib", lib)
			}
		}
		if v.ABIMismatched(i) && w.otherABI != u.ABI.Fingerprint {
			w.otherABI = u.ABI.Fingerprint
			o.f.log.Warn("the ABI of an upstream is not the one that clients get", "server", u.Server.Name,
				"fingerprint", u.ABI.Fingerprint, "clients_get", v.ABI.Fingerprint, "from", v.ABISource)
		}
	}
	if v.Stitching == nil {
		o.hintPoolABIs(v)
	}
}

// liveLIB is the fleet's LIB, if a live node stands behind it now.
func (f *Fleet) liveLIB(v *View) (lib uint32, known bool) {
	v.anchors(func(*Upstream) { known = true })
	lib = f.Pair().LIB.Num
	return lib, known && lib > 0
}

func (o *owner) hintLive(u *Upstream, w *warnings) {
	w.end = 0
	if u.Online && u.Stale && u.Head == u.LIB && u.lastBlock() == u.Head.Num && !w.frozen {
		w.frozen = true
		o.f.log.Warn(`a live upstream looks like an archive: it does not move, and its head is irreversible; if it is one, give it role = "frozen"`,
			"server", u.Server.Name, "last_block", u.Head.Num)
	}
}

func (o *owner) hintArchive(u *Upstream, w *warnings) {
	end := next(u.lastBlock())
	if w.end > 0 && end > w.end && !w.moved {
		w.moved = true
		o.f.log.Warn("an archive has moved, though its range should be fixed; is it a live node?", "server", u.Server.Name, "end_was", w.end, "end", end)
	}
	w.end = end
	said := ""
	if u.RangeMismatch() {
		declared := ship.Range(*u.Server.Range)
		said = fmt.Sprint(declared, u.Trace, u.ChainState)
		if said != w.mismatch {
			o.f.log.Warn("an archive reports another range than the configuration declares; what it reports counts", "server", u.Server.Name,
				"declared", declared, "trace", u.Trace, "chain_state", u.ChainState)
		}
	}
	w.mismatch = said
}

// lastBlock is the last block of the longest log, 0 without any.
func (u *Upstream) lastBlock() uint32 {
	return max(1, u.Trace.End, u.ChainState.End, u.Finality.End) - 1
}

// hintPoolABIs warns of each ABI that is not the one that most nodes of a pool
// have: after a failover its clients may read data under another.
func (o *owner) hintPoolABIs(v *View) {
	count := map[string]int{}
	var common *Upstream
	for i := range v.Upstreams {
		if u := &v.Upstreams[i]; u.ABI != nil {
			count[u.ABI.Fingerprint]++
		}
	}
	if len(count) < 2 {
		return
	}
	for i := range v.Upstreams {
		if u := &v.Upstreams[i]; u.ABI != nil && (common == nil || count[u.ABI.Fingerprint] > count[common.ABI.Fingerprint]) {
			common = u
		}
	}
	for i := range v.Upstreams {
		u := &v.Upstreams[i]
		if u.ABI == nil || u.ABI.Fingerprint == common.ABI.Fingerprint || o.poolABIs[u.ABI.Fingerprint] {
			continue
		}
		o.poolABIs[u.ABI.Fingerprint] = true
		o.f.log.Warn("the ABI of an upstream is not the one that most of the pool have", "server", u.Server.Name,
			"fingerprint", u.ABI.Fingerprint, "most_have", common.ABI.Fingerprint)
	}
}
