package admin

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"flotilla/policies"
	"flotilla/policies/choice"
	"flotilla/policies/lua"
	"flotilla/stages/explain"
)

// scriptedPool is a pool of two nodes whose policy is a script.
func scriptedPool(t *testing.T, script string) (Listener, *lua.Policy) {
	t.Helper()
	p := &lua.Policy{Script: "policies/s.lua", Timeout: "1s"}
	if err := p.Load(func(string) (string, error) { return script, nil }); err != nil {
		t.Fatal(err)
	}
	if err := p.Provision(policies.Env{Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	l := pool("eos", down("a"), down("b"))
	l.Policy = p
	l.Explain = func(text []byte) (choice.Answer, error) {
		var q explain.Question
		if len(text) > 0 {
			if err := json.Unmarshal(text, &q); err != nil {
				return choice.Answer{}, err
			}
		}
		return explain.Ask(l.Fleet, "lua", p, q), nil
	}
	return l, p
}

func fail(p policies.Policy, times int) {
	for range times {
		p.Order(&policies.Request{}, []*policies.Server{{Name: "a"}, {Name: "b", ID: 1}}, 1)
	}
}

// A script that fails is seen: in the metrics, and once it is switched off in
// the answer about readiness, whose first line and code stay.
func TestScriptIsSeen(t *testing.T) {
	l, p := scriptedPool(t, "function select() counter('asked') error('broken') end")
	s := serving(State{Listeners: []Listener{l}, ReloadOK: true})
	fail(p, 3)
	_, metrics := get(t, s, "/metrics")
	for _, line := range []string{
		`flotilla_policy_calls_total{listener="eos",script="s.lua"} 3`,
		`flotilla_policy_errors_total{kind="error",listener="eos",script="s.lua"} 3`,
		`flotilla_policy_errors_total{kind="time",listener="eos",script="s.lua"} 0`,
		`flotilla_policy_off{listener="eos",script="s.lua"} 0`,
		`flotilla_policy_counter_total{listener="eos",name="asked",script="s.lua"} 3`,
	} {
		if !strings.Contains(metrics, line+"\n") {
			t.Errorf("there is no %s", line)
		}
	}
	code, before := get(t, s, "/ready")
	fail(p, 10)
	for _, path := range []string{"/ready", "/ready/eos"} {
		again, text := get(t, s, path)
		if again != code || !strings.Contains(text, "policies/s.lua is switched off") || !strings.Contains(text, "s.lua:1: broken") {
			t.Errorf("%s: %d %s", path, again, text)
		}
		if path == "/ready" && !strings.HasPrefix(text, before) {
			t.Errorf("the first line was %q, and is %q", before, text)
		}
	}
	if _, metrics := get(t, s, "/metrics"); !strings.Contains(metrics, `flotilla_policy_off{listener="eos",script="s.lua"} 1`) {
		t.Error("the metrics do not tell that it is off")
	}
}

func TestExplainRoute(t *testing.T) {
	l, p := scriptedPool(t, "function select(r, s) return s end")
	s := serving(State{Listeners: []Listener{l}, ReloadOK: true})
	ask := func(request string) (int, string) {
		return get(t, s, "/api/v1/listeners/eos/explain?request="+url.QueryEscape(request))
	}
	code, text := ask(`{"start_block": 5, "client": "10.0.0.1"}`)
	var a choice.Answer
	if err := json.Unmarshal([]byte(text), &a); err != nil || code != http.StatusOK {
		t.Fatalf("%d %s: %v", code, text, err)
	}
	if a.Listener != "eos" || a.Policy != "lua" || a.Script.File != "policies/s.lua" || len(a.Servers) != 2 || a.Plan != "hold" {
		t.Errorf("the answer is %s", text)
	}
	for _, c := range []struct {
		path, says string
		code       int
	}{
		{"/api/v1/listeners/eos/explain", `"listener": "eos"`, 200},
		{"/api/v1/listeners/wax/explain", "not found", 404},
		{"/api/v1/listeners/eos/other", "not found", 404},
		{"/api/v1/listeners/eos/explain?request={", "JSON", 400},
		{"/api/v1/listeners/eos/explain?request=" + url.QueryEscape(`{"start_block":-5}`), "start_block", 400},
	} {
		if code, text := get(t, s, c.path); code != c.code || !strings.Contains(text, c.says) {
			t.Errorf("%s: %d %s, want %d and %q", c.path, code, text, c.code, c.says)
		}
	}
	if p.Report().Calls != 0 {
		t.Error("explaining counts as calls")
	}
}
