package fleet

import (
	"flotilla/gateway/config"
	"flotilla/gateway/ship"
)

// canonical is the ABI that the clients of a range-split fleet get (M18), and
// whether a live node sent it: that of the configuration, else that of the live
// nodes, which stays while any of them has it, else the one that most archives
// have.
func canonical(cfg *config.Listener, v, old *View) (abi *ship.ABI, live bool) {
	if text := cfg.Stitching.ABI; text != "" {
		if old.ABI != nil && string(old.ABI.Text) == text {
			return old.ABI, false
		}
		if abi, err := ship.ParseABI([]byte(text)); err == nil {
			return abi, false
		}
	}
	var best *Upstream
	archives := map[string]int{}
	for i := range v.Upstreams {
		u := &v.Upstreams[i]
		switch {
		case u.ABI == nil || !u.Online || !u.Routable():
		case u.Frozen():
			archives[u.ABI.Fingerprint]++
		case old.abiFromLive && u.ABI.Fingerprint == old.ABI.Fingerprint:
			return old.ABI, true
		case best == nil || u.Head.Num > best.Head.Num:
			best = u
		}
	}
	if best != nil {
		return best.ABI, true
	}
	if old.abiFromLive {
		return old.ABI, true
	}
	abi = old.ABI
	most := 0
	for i := range v.Upstreams {
		if u := &v.Upstreams[i]; u.Frozen() && u.ABI != nil && u.Online && u.Routable() && archives[u.ABI.Fingerprint] > most {
			abi, most = u.ABI, archives[u.ABI.Fingerprint]
		}
	}
	return abi, false
}
