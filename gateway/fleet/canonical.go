package fleet

import (
	"slices"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"
)

// canonical decides the ABI that the clients of a range-split fleet get (M18):
// that of the configuration, else that of the live nodes, which stays while any
// of them has it, else the one that most archives have. old is the view before.
func (v *View) canonical(cfg *config.Listener, old *View) {
	v.ABI, v.ABISource, v.abiFromLive = old.ABI, old.ABISource, old.abiFromLive
	if v.configuredABI(cfg.Stitching.ABI) {
		return
	}
	if !v.liveHasABI() {
		u, live := v.highestLiveABI(), true
		if u == nil && !v.abiFromLive {
			u, live = v.archiveABI(), false
		}
		if u != nil {
			v.ABI, v.ABISource, v.abiFromLive = u.ABI, u.Server.Name, live
		}
	}
	v.ABIProvisional = v.ABI != nil && !v.abiFromLive
}

// configuredABI takes the text of abi_file, if there is one.
func (v *View) configuredABI(text string) bool {
	if text == "" {
		return false
	}
	abi := v.ABI
	if abi == nil || string(abi.Text) != text {
		var err error
		if abi, err = ship.ParseABI([]byte(text)); err != nil {
			// The configuration was checked with the same parser.
			return false
		}
	}
	v.ABI, v.ABISource, v.abiFromLive = abi, ABIFile, false
	return true
}

// liveHasABI reports whether clients get the ABI of a live node, and one that is
// online has it.
func (v *View) liveHasABI() bool {
	return v.abiFromLive && slices.ContainsFunc(v.Upstreams, func(u Upstream) bool {
		return u.anchor() && u.ABI != nil && u.ABI.Fingerprint == v.ABI.Fingerprint
	})
}

// highestLiveABI is the live node with the highest head among those that are
// online and have sent an ABI.
func (v *View) highestLiveABI() (best *Upstream) {
	for i := range v.Upstreams {
		if u := &v.Upstreams[i]; u.anchor() && u.ABI != nil && (best == nil || u.Head.Num > best.Head.Num) {
			best = u
		}
	}
	return best
}

// archiveABI is the first online archive with the ABI that most of them have.
func (v *View) archiveABI() (best *Upstream) {
	count := map[string]int{}
	for i := range v.Upstreams {
		if u := &v.Upstreams[i]; u.Frozen() && u.Counted() && u.ABI != nil {
			count[u.ABI.Fingerprint]++
		}
	}
	for i := range v.Upstreams {
		u := &v.Upstreams[i]
		if u.Frozen() && u.Counted() && u.ABI != nil && (best == nil || count[u.ABI.Fingerprint] > count[best.ABI.Fingerprint]) {
			best = u
		}
	}
	return best
}

// tellABI logs when clients get another ABI than before.
func (o *owner) tellABI(old, v *View) {
	switch {
	case v.ABI == nil || old.ABI != nil && old.ABI.Fingerprint == v.ABI.Fingerprint:
	case old.ABI == nil:
		o.f.log.Info("the ABI that clients get is chosen", "fingerprint", v.ABI.Fingerprint, "from", v.ABISource, "provisional", v.ABIProvisional)
	default:
		o.f.log.Info("clients get another ABI from now on", "fingerprint", v.ABI.Fingerprint, "from", v.ABISource, "provisional", v.ABIProvisional)
	}
}
