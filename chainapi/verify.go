package chainapi

import "flotilla/gateway/ship"

// An archive's API is used only once it is verified: the last block that it
// describes is the head that its own SHiP endpoint reports, and its
// get_block_info for that block tells the same id (seed 003 "Upstream APIs").
// Outages of either side change nothing in that.

// toProve is the block whose id has to be asked for, to find out whether the
// archive is what it says. It reports false when there is nothing to ask.
func (k *known) toProve() (block ship.Pos, ask bool) {
	switch {
	case k.WrongChain || k.last.Num == 0:
		return ship.Pos{}, false
	case k.Verified:
		return k.last, k.last != k.proven
	}
	return k.last, k.ship == k.last
}

// proved takes in whether get_block_info told the id of a block.
func (o *owner) proved(k *known, block ship.Pos, right bool) {
	right = right && k.ship == block
	switch {
	case block != k.last:
	case right:
		if !k.Verified {
			o.p.log.Info("chain API verified", "server", k.Server.Name, "api", k.Server.APIEndpoint, "block", block.Num)
		}
		k.Verified, k.proven, k.doubted, o.dirty = true, block, "", true
	case k.Verified:
		o.refute(k, "its last block is not the one of its SHiP endpoint")
	default:
		o.doubt(k, "its get_block_info tells another id than its description")
	}
}

// judgeShip takes in the head that SHiP reported.
func (o *owner) judgeShip(k *known) {
	if k.Verified && k.ship.Num != 0 && k.ship != k.proven {
		o.refute(k, "its SHiP endpoint has another head than the verified block")
	}
}

// refute takes the verification away.
func (o *owner) refute(k *known, why string) {
	k.Verified, k.proven, o.dirty = false, ship.Pos{}, true
	o.p.log.Warn("chain API serves different blocks than its SHiP endpoint and is not used until that changes",
		"server", k.Server.Name, "api", k.Server.APIEndpoint, "why", why)
}

// doubt says once why an archive is not verified.
func (o *owner) doubt(k *known, why string) {
	if k.doubted != why {
		k.doubted = why
		o.p.log.Warn("a chain API is not verified and not used", "server", k.Server.Name, "api", k.Server.APIEndpoint, "why", why)
	}
}
