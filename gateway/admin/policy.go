package admin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"

	"flotilla/policies"
	"flotilla/policies/choice"
)

// withPolicies adds a line to a readiness answer for each script that is
// switched off. It does not make a listener unready: the built-in policy
// serves. listeners are those of SHiP, and evm the others.
func withPolicies(a answer, listeners []Listener, evm []EVM) answer {
	add := func(name string, p policies.Policy) {
		r, ok := p.(policies.Reporter)
		if !ok {
			return
		}
		if r := r.Report(); r.Off {
			a.body = fmt.Appendf(bytes.Clone(a.body), "policy of %s: %s is switched off after failures, %s decides: %s\n",
				name, r.Script, policies.Default, oneLine(r.LastFailure))
		}
	}
	for i := range listeners {
		add(listeners[i].Config.Name, listeners[i].Policy)
	}
	for i := range evm {
		add(evm[i].Config.Name, evm[i].Policy)
	}
	return a
}

// policyMetrics are those of listeners whose policy is a script.
var policyMetrics = []metric[policies.Policy]{
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
func scripted(name string, kind kind, help string, labels []string, read func(policies.Report, sink, string)) metric[policies.Policy] {
	return metric[policies.Policy]{family{name, kind, help, append([]string{"script"}, labels...)},
		func(p policies.Policy, to sink) {
			if r, ok := p.(policies.Reporter); ok {
				report := r.Report()
				read(report, to, filepath.Base(report.Script))
			}
		}}
}

// explainOf tells which servers a listener of any protocol would choose for the
// request in the query, and why: GET /api/v1/listeners/NAME/explain?request={...}.
func explainOf(name string) route {
	return func(st *State, r *http.Request) answer {
		var ask func([]byte) (choice.Answer, error)
		if l := st.listener(name); l != nil {
			ask = l.Explain
		} else if l := st.evmListener(name); l != nil {
			ask = l.Explain
		}
		if ask == nil {
			return notFound
		}
		a, err := ask([]byte(r.URL.Query().Get("request")))
		if err != nil {
			return line(http.StatusBadRequest, "%s", oneLine(err.Error()))
		}
		body, err := json.MarshalIndent(&a, "", "  ")
		if err != nil {
			return line(http.StatusInternalServerError, "%s", oneLine(err.Error()))
		}
		return answer{http.StatusOK, jsonText, append(body, '\n')}
	}
}
