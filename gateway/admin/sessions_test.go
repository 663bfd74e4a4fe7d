package admin

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/ship/session"
)

func TestSessions(t *testing.T) {
	began := time.UnixMilli(1_700_000_000_000)
	up := &fleet.Upstream{Server: &config.Server{Name: "one", Endpoint: "10.0.0.1:8080"}}
	eos, wax := pool("eos"), pool("wax")
	eos.Sessions = func() []session.Description {
		return []session.Description{
			{ID: 7, Client: "10.9.9.9:5", Started: began.Add(time.Second), State: fleet.Holding, Why: fleet.HoldAtCapacity, Asked: true, Start: 5, Next: 9, Blocks: 4},
			{ID: 3, Client: "10.9.9.9:4", Started: began, State: fleet.Streaming, Upstream: up, Asked: true, Start: 1, Next: 100, Finality: true, Blocks: 99, Bytes: 1000, Failovers: 2},
		}
	}
	wax.Sessions = func() []session.Description {
		return []session.Description{{ID: 1, Client: "10.9.9.9:3", Started: began.Add(time.Minute), State: fleet.Idle}}
	}
	st := State{Listeners: []Listener{eos, wax}, ReloadOK: true, Control: &Control{AllowedHosts: []string{"example.com"}}}
	streaming := `{"id":3,"listener":"eos","client":"10.9.9.9:4","upstream":"10.0.0.1:8080","upstream_name":"one","started_ms":1700000000000,"state":"streaming","start_block":1,"next_block":100,"finality":true,"blocks":99,"bytes":1000,"failovers":2}`
	held := `{"id":7,"listener":"eos","client":"10.9.9.9:5","upstream":"","upstream_name":"","started_ms":1700000001000,"state":"holding","why":"at_capacity","start_block":5,"next_block":9,"finality":false,"blocks":4,"bytes":0,"failovers":0}`
	idle := `{"id":1,"listener":"wax","client":"10.9.9.9:3","upstream":"","upstream_name":"","started_ms":1700000060000,"state":"idle","start_block":null,"next_block":null,"finality":false,"blocks":0,"bytes":0,"failovers":0}`
	for query, want := range map[string]string{
		"":                 streaming + "," + held + "," + idle,
		"?listener=eos":    streaming + "," + held,
		"?listener=wax":    idle,
		"?listener=":       "",
		"?listener=nobody": "",
		"?upstream=" + url.QueryEscape("10.0.0.1:8080"): streaming,
		"?upstream=&listener=eos":                       held,
	} {
		if code, got := get(t, serving(st), "/api/v1/sessions"+query); code != http.StatusOK || got != `{"sessions":[`+want+`]}` {
			t.Errorf("%s: %d %s", query, code, got)
		}
	}
	st.Control.AllowedHosts = nil
	if code, got := get(t, serving(st), "/api/v1/sessions"); code != http.StatusForbidden {
		t.Errorf("for a host that is not allowed: %d %s", code, got)
	}
	st.Control = nil
	if code, got := get(t, serving(st), "/api/v1/sessions"); code != http.StatusNotFound {
		t.Errorf("without a dashboard: %d %s", code, got)
	}
}
