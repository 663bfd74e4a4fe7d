package probe

import (
	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/ship"
)

// Unserved are the blocks of archives for which only live nodes could answer in
// the chain API, because no archive that has them has an api_endpoint. There are
// none without a chain API.
func (l *Listener) Unserved() []ship.Range {
	if l.ChainAPI == nil {
		return nil
	}
	var archived, served []ship.Range
	for _, s := range l.Servers {
		if !s.Enabled || s.Role != config.Frozen {
			continue
		}
		own := s.Ranges()
		for _, r := range []ship.Range{own.Trace, own.ChainState} {
			if r.Empty() {
				continue
			}
			archived = append(archived, r)
			if s.APIEndpoint != "" {
				served = append(served, r)
			}
		}
	}
	return subtract(fleet.Merge(archived), fleet.Merge(served))
}

// subtract is what of a is not in b. Both are ascending, and neither has ranges
// that touch.
func subtract(a, b []ship.Range) (rest []ship.Range) {
	for _, r := range a {
		for _, cut := range b {
			if cut.End <= r.Begin || cut.Begin >= r.End {
				continue
			}
			if cut.Begin > r.Begin {
				rest = append(rest, ship.Range{Begin: r.Begin, End: cut.Begin})
			}
			r.Begin = min(cut.End, r.End)
		}
		if !r.Empty() {
			rest = append(rest, r)
		}
	}
	return rest
}
