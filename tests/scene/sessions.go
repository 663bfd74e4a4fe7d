package scene

import (
	"encoding/json"
	"net/http"

	"flotilla/gateway/config"
)

// OpenControl is OpenAdmin with the paths below /api/v1.
func (w *World) OpenControl() {
	w.OpenAdmin()
	w.Admin.Dashboard = &config.Dashboard{Enabled: true, AllowedHosts: []string{"gateway"}}
}

// Session is what the admin port tells of a client.
type Session struct {
	State, Why, Upstream string
	NextBlock            *uint32 `json:"next_block"`
}

// Sessions are the clients as the admin port lists them.
func (w *World) Sessions() []Session {
	w.T.Helper()
	c := http.Client{Transport: &http.Transport{DialContext: w.Net.DialContext, DisableKeepAlives: true}}
	resp, err := c.Get("http://" + AdminAddress + "/api/v1/sessions")
	if err != nil {
		w.T.Fatalf("read the sessions: %v", err)
	}
	defer func() { _ = resp.Body.Close() }()
	var doc struct{ Sessions []Session }
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil {
		w.T.Fatalf("read the sessions: %v", err)
	}
	return doc.Sessions
}
