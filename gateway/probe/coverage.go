package probe

import (
	"slices"
	"strings"

	"flotilla/gateway/fleet"
	"flotilla/gateway/ship"
)

// Source is where the ranges of a server come from.
type Source string

// The sources. A declared range is that of the configuration; it stands for
// the trace and the chain-state log.
const (
	SourceReported Source = "reported"
	SourceDeclared Source = "declared"
	SourceUnknown  Source = "unknown"
)

// Ranges are what one server holds; empty ranges when unknown.
type Ranges struct {
	Source                      Source
	Trace, ChainState, Finality ship.Range
}

// Ranges is what the server reported, else what the configuration declares.
func (s *Server) Ranges() Ranges {
	u := s.upstream()
	r := Ranges{SourceUnknown, u.Trace, u.ChainState, u.Finality}
	switch {
	case u.Reported:
		r.Source = SourceReported
	case u.Known:
		r.Source = SourceDeclared
	}
	return r
}

// Coverage is what the enabled servers of a listener hold of each log, as the
// fleet of a running gateway counts it (package fleet): fleet.Log is the index.
type Coverage [len(fleet.Logs)]fleet.Coverage

// Holes are those of the trace and chain-state logs, merged.
func (c *Coverage) Holes() []ship.Range {
	return fleet.Merge(slices.Concat(c[fleet.Trace].Gaps, c[fleet.ChainState].Gaps))
}

// upstream is the server as the fleet of a running gateway would know it.
func (s *Server) upstream() fleet.Upstream {
	if s.Reported() {
		return fleet.Heard(s.Server, &s.Status)
	}
	return fleet.Heard(s.Server, nil)
}

// cover puts the ranges of all enabled servers together. Live servers hold their
// blocks up to the highest head of them.
func cover(servers []*Server) (c Coverage) {
	var head uint32
	var v fleet.View
	for _, s := range servers {
		if !s.Enabled {
			continue
		}
		u := s.upstream()
		if !u.Frozen() {
			head = max(head, u.Head.Num)
		}
		v.Upstreams = append(v.Upstreams, u)
	}
	for _, log := range fleet.Logs {
		c[log] = v.Coverage(log, head)
	}
	return c
}

// RangesText writes ranges as "[1,51) [61,101)", "-" when all are empty.
func RangesText(list []ship.Range) string {
	var out []string
	for _, r := range list {
		if !r.Empty() {
			out = append(out, r.String())
		}
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, " ")
}
