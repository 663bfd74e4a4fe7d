package admin

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"

	"flotilla/gateway/fleet"
	"flotilla/gateway/ship/session"
)

// sessionDocument is one client in the list of sessions (spec "observability"
// 5.2). State, why and next_block are more than the peer tells: whether somebody
// is held, for want of what, and at which block.
type sessionDocument struct {
	ID           uint64             `json:"id"`
	Listener     string             `json:"listener"`
	Client       string             `json:"client"`
	Upstream     string             `json:"upstream"`
	UpstreamName string             `json:"upstream_name"`
	StartedMS    int64              `json:"started_ms"`
	State        fleet.SessionState `json:"state"`
	Why          fleet.HoldReason   `json:"why,omitempty"`
	StartBlock   *uint32            `json:"start_block"`
	NextBlock    *uint32            `json:"next_block"`
	Finality     bool               `json:"finality"`
	Blocks       uint64             `json:"blocks"`
	Bytes        uint64             `json:"bytes"`
	Failovers    uint64             `json:"failovers"`
}

// sessions lists the SHiP clients, the oldest first; the parameters listener and
// upstream, which is an endpoint, keep those that have just these.
func sessions(st *State, r *http.Request) answer {
	if st.Control == nil {
		return problem(http.StatusNotFound, "not found")
	}
	if !hostAllowed(r.Host, st.Control.AllowedHosts) {
		return line(http.StatusForbidden, "this host is not allowed; dashboard.allowed_hosts lists those that are")
	}
	query := r.URL.Query()
	list := []sessionDocument{}
	for _, l := range st.Listeners {
		if l.Sessions == nil || query.Has("listener") && query.Get("listener") != l.Config.Name {
			continue
		}
		for _, d := range l.Sessions() {
			doc := describeSession(l.Config.Name, &d)
			if !query.Has("upstream") || query.Get("upstream") == doc.Upstream {
				list = append(list, doc)
			}
		}
	}
	slices.SortFunc(list, func(a, b sessionDocument) int {
		return cmp.Or(cmp.Compare(a.StartedMS, b.StartedMS), cmp.Compare(a.Listener, b.Listener), cmp.Compare(a.ID, b.ID))
	})
	body, err := json.Marshal(map[string]any{"sessions": list})
	if err != nil {
		return problem(http.StatusInternalServerError, err.Error())
	}
	return answer{http.StatusOK, jsonText, body}
}

func describeSession(listener string, d *session.Description) sessionDocument {
	doc := sessionDocument{
		ID: d.ID, Listener: listener, Client: d.Client, StartedMS: d.Started.UnixMilli(), State: d.State, Why: d.Why,
		Finality: d.Finality, Blocks: d.Blocks, Bytes: d.Bytes, Failovers: d.Failovers,
	}
	if d.Upstream != nil {
		doc.Upstream, doc.UpstreamName = d.Upstream.Server.Endpoint, d.Upstream.Server.Name
	}
	if d.Asked {
		doc.StartBlock, doc.NextBlock = &d.Start, &d.Next
	}
	return doc
}
