package admin

import (
	"encoding/json"
	"net/http"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/ship"
)

// The document of spec "observability" section 2.
type (
	coverageDocument struct {
		Listeners []coverageListener `json:"listeners"`
	}
	coverageListener struct {
		Name             *string                `json:"name"`
		Topology         config.Topology        `json:"topology"`
		Generation       uint64                 `json:"generation"`
		Head             *coveragePos           `json:"head"`
		LIB              *coveragePos           `json:"lib"`
		ChainID          *string                `json:"chain_id"`
		StatusReady      bool                   `json:"status_ready"`
		FrozenUnreported int                    `json:"frozen_unreported"`
		ABI              *coverageABI           `json:"abi"` // of a stitched listener only
		Logs             map[string]coverageLog `json:"logs"`
		ChainAPI         *coverageChainAPI      `json:"chain_api"`
	}
	coverageABI struct {
		Fingerprint string   `json:"fingerprint"`
		Source      string   `json:"source"`
		Provisional bool     `json:"provisional"`
		Mismatched  []string `json:"mismatched"`
	}
	coveragePos struct {
		Num uint32 `json:"num"`
		ID  string `json:"id"`
	}
	coverageRange struct {
		Begin uint32 `json:"begin"`
		End   uint32 `json:"end"`
	}
	coverageLog struct {
		Reported    coverageRange     `json:"reported"`
		Gaps        []coverageRange   `json:"gaps"`
		OfflineOnly []coverageRange   `json:"offline_only"`
		Segments    []coverageSegment `json:"segments"`
	}
	coverageSegment struct {
		coverageRange
		Upstreams []coverageUpstream `json:"upstreams"`
	}
	coverageUpstream struct {
		Server           string      `json:"server"`
		Role             config.Role `json:"role"`
		Online           bool        `json:"online"`
		Sessions         int64       `json:"sessions"`
		OperatorDisabled bool        `json:"operator_disabled,omitempty"`
	}
)

// coverage is the document over all listeners.
func (s *Server) coverage(st *State, _ *http.Request) answer {
	return s.describe(st, st.Listeners)
}

// coverageOf is the document of one listener.
func (s *Server) coverageOf(name string) route {
	return func(st *State, _ *http.Request) answer {
		l := st.listener(name)
		if l == nil {
			return notFound
		}
		return s.describe(st, []Listener{*l})
	}
}

func (s *Server) describe(st *State, listeners []Listener) answer {
	doc := coverageDocument{Listeners: []coverageListener{}}
	for i := range listeners {
		doc.Listeners = append(doc.Listeners, describeListener(&listeners[i], st.Single))
	}
	body, err := json.Marshal(&doc)
	if err != nil {
		s.log.Error("the coverage document could not be built", "error", err)
		return line(http.StatusInternalServerError, "internal error")
	}
	return answer{http.StatusOK, jsonText, append(body, '\n')}
}

func describeListener(l *Listener, single bool) coverageListener {
	v := l.Fleet.View()
	head, lib, known := l.Fleet.Tip()
	unreported := v.Unreported()
	d := coverageListener{
		Topology: topology(l.Config), Generation: v.Generation, Head: position(head), LIB: position(lib),
		StatusReady: known && unreported == 0, FrozenUnreported: unreported, ABI: describeABI(v), Logs: map[string]coverageLog{},
	}
	if !single {
		d.Name = &l.Config.Name
	}
	if v.ChainID != nil {
		id := v.ChainID.String()
		d.ChainID = &id
	}
	if l.ChainAPI != nil {
		d.ChainAPI = describeAPI(l.ChainAPI)
	}
	for _, log := range fleet.Logs {
		d.Logs[log.String()] = describeLog(v, v.Coverage(log, head.Num))
	}
	return d
}

// describeABI is nil for a pool, and until there is an ABI.
func describeABI(v *fleet.View) *coverageABI {
	if v.ABI == nil {
		return nil
	}
	d := &coverageABI{Fingerprint: v.ABI.Fingerprint, Source: v.ABISource, Provisional: v.ABIProvisional, Mismatched: []string{}}
	for i := range v.Upstreams {
		if v.ABIMismatched(i) {
			d.Mismatched = append(d.Mismatched, v.Upstreams[i].Server.Name)
		}
	}
	return d
}

func describeLog(v *fleet.View, c fleet.Coverage) coverageLog {
	d := coverageLog{
		Reported: coverageRange(c.Top()), Gaps: ranges(c.Gaps), OfflineOnly: ranges(c.Offline),
		Segments: []coverageSegment{},
	}
	for _, s := range c.Segments {
		part := coverageSegment{coverageRange: coverageRange(s.Range)}
		for _, i := range s.Upstreams {
			u := &v.Upstreams[i]
			part.Upstreams = append(part.Upstreams, coverageUpstream{
				Server: u.Server.Name, Role: u.Server.Role, Online: u.Online,
				Sessions: u.Live.Links(), OperatorDisabled: u.Disabled,
			})
		}
		d.Segments = append(d.Segments, part)
	}
	return d
}

func topology(c *config.Listener) config.Topology {
	if c.Stitched() {
		return config.TopologyStitched
	}
	return config.TopologyPool
}

func position(p ship.Pos) *coveragePos {
	if p.Num == 0 {
		return nil
	}
	return &coveragePos{Num: p.Num, ID: p.ID.String()}
}

// ranges is never nil, so that an empty list reads [] in JSON.
func ranges(list []ship.Range) []coverageRange {
	out := make([]coverageRange, len(list))
	for i, r := range list {
		out[i] = coverageRange(r)
	}
	return out
}
