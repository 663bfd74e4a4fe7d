package probe

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"flotilla/gateway/config"
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
	switch {
	case s.Reported():
		return Ranges{SourceReported, s.Status.Trace, s.Status.ChainState, s.Status.Finality}
	case s.Range != nil:
		declared := ship.Range{Begin: s.Range.Begin, End: s.Range.End}
		return Ranges{Source: SourceDeclared, Trace: declared, ChainState: declared}
	}
	return Ranges{Source: SourceUnknown}
}

// Log is what all servers of a listener hold of one log: ascending ranges that
// do not touch.
type Log struct {
	Name   string
	Ranges []ship.Range
}

// Holes are what lies between the ranges.
func (l *Log) Holes() []ship.Range {
	var out []ship.Range
	for i := 1; i < len(l.Ranges); i++ {
		out = append(out, ship.Range{Begin: l.Ranges[i-1].End, End: l.Ranges[i].Begin})
	}
	return out
}

// String is the ranges, "-" when there are none.
func (l *Log) String() string { return RangesText(l.Ranges) }

// Coverage is the logs trace, chain_state and finality, in this order.
type Coverage struct{ Logs [3]Log }

// Holes are those of the trace and chain-state logs, merged.
func (c *Coverage) Holes() []ship.Range {
	return merge(append(c.Logs[0].Holes(), c.Logs[1].Holes()...))
}

// cover puts the ranges of all enabled servers together (spec "ship" M14). A
// live server holds its blocks up to the head of the fleet.
func cover(servers []*Server) Coverage {
	var head uint32
	for _, s := range servers {
		if s.Reported() && s.Role == config.Live {
			head = max(head, s.Status.Head.Num)
		}
	}
	c := Coverage{[3]Log{{Name: "trace"}, {Name: "chain_state"}, {Name: "finality"}}}
	for _, s := range servers {
		if !s.Enabled {
			continue
		}
		own := s.Ranges()
		for i, r := range []ship.Range{own.Trace, own.ChainState, own.Finality} {
			if r.Empty() {
				continue
			}
			if s.Role == config.Live {
				r.End = max(r.End, head+1)
			}
			c.Logs[i].Ranges = append(c.Logs[i].Ranges, r)
		}
	}
	for i := range c.Logs {
		c.Logs[i].Ranges = merge(c.Logs[i].Ranges)
	}
	return c
}

// merge sorts ranges and joins those that touch.
func merge(list []ship.Range) []ship.Range {
	slices.SortFunc(list, func(a, b ship.Range) int { return cmp.Compare(a.Begin, b.Begin) })
	var out []ship.Range
	for _, r := range list {
		if last := len(out) - 1; last >= 0 && r.Begin <= out[last].End {
			out[last].End = max(out[last].End, r.End)
			continue
		}
		out = append(out, r)
	}
	return out
}

// RangesText writes ranges as "[1,51) [61,101)", "-" when all are empty.
func RangesText(list []ship.Range) string {
	var out []string
	for _, r := range list {
		if !r.Empty() {
			out = append(out, rangeText(r))
		}
	}
	if len(out) == 0 {
		return "-"
	}
	return strings.Join(out, " ")
}

func rangeText(r ship.Range) string { return fmt.Sprintf("[%d,%d)", r.Begin, r.End) }
