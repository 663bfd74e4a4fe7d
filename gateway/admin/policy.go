package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"

	"flotilla/policies"
	"flotilla/stages/explain"
)

// report is how the listener's policy does; false for one that cannot fail.
func (l *Listener) report() (policies.Report, bool) {
	if r, ok := l.Policy.(policies.Reporter); ok {
		return r.Report(), true
	}
	return policies.Report{}, false
}

// withPolicies adds a line to a readiness answer for each script that is
// switched off. It does not make a listener unready: the built-in policy
// serves.
func withPolicies(a answer, listeners ...Listener) answer {
	for i := range listeners {
		l := &listeners[i]
		if r, ok := l.report(); ok && r.Off {
			a.body = fmt.Appendf(bytes.Clone(a.body), "policy of %s: %s is switched off after failures, %s decides: %s\n",
				l.Config.Name, r.Script, policies.Default, oneLine(r.LastFailure))
		}
	}
	return a
}

// policyMetrics are those of listeners whose policy is a script.
var policyMetrics = []metric[listenerSubject]{
	scripted("flotilla_policy_calls_total", counter, "Calls of the policy's script.", nil,
		func(r policies.Report, to sink, script string) { to.value(float64(r.Calls), script) }),
	scripted("flotilla_policy_errors_total", counter, "Calls of the policy's script after which the built-in policy decided.", []string{"kind"},
		func(r policies.Report, to sink, script string) {
			for kind, n := range r.Failures {
				to.value(float64(n), script, kind)
			}
		}),
	scripted("flotilla_policy_off", gauge, "1 while the policy's script is switched off because it failed again and again.", nil,
		func(r policies.Report, to sink, script string) { to.value(flag(r.Off), script) }),
	scripted("flotilla_policy_counter_total", counter, "Counters of the policy's script.", []string{"name"},
		func(r policies.Report, to sink, script string) {
			for name, n := range r.Counters {
				to.value(n, script, name)
			}
		}),
}

// scripted is a family about a script.
func scripted(name string, kind kind, help string, labels []string, read func(policies.Report, sink, string)) metric[listenerSubject] {
	return metric[listenerSubject]{family{name, kind, help, append([]string{"script"}, labels...)},
		func(l listenerSubject, to sink) {
			if r, ok := l.report(); ok {
				read(r, to, filepath.Base(r.Script))
			}
		}}
}

// explainOf tells which servers a listener would choose for the request in the
// query, and why: GET /api/v1/listeners/NAME/explain?request={...}.
func explainOf(name string) route {
	return func(st *State, r *http.Request) answer {
		l := st.listener(name)
		if l == nil || l.Explain == nil {
			return notFound
		}
		var q explain.Question
		if text := r.URL.Query().Get("request"); text != "" {
			d := json.NewDecoder(bytes.NewReader([]byte(text)))
			d.DisallowUnknownFields()
			if err := d.Decode(&q); err != nil {
				return line(http.StatusBadRequest, "request is not what is expected: %s; fields are %s", oneLine(err.Error()), explain.Fields)
			}
		}
		a := l.Explain(q)
		body, err := json.MarshalIndent(&a, "", "  ")
		if err != nil {
			return line(http.StatusInternalServerError, "%s", oneLine(err.Error()))
		}
		return answer{http.StatusOK, jsonText, append(body, '\n')}
	}
}
