package chainapi

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
	"flotilla/policies"
	"flotilla/policies/lua"
)

// asAccount posts in the name of an account, and returns the node that answered.
func (w *world) asAccount(c *http.Client, account, path string) string {
	w.T.Helper()
	r, err := http.NewRequestWithContext(w.Ctx, http.MethodPost, "http://"+port+path, strings.NewReader("{}"))
	if err != nil {
		w.T.Fatal(err)
	}
	r.Header.Set("X-Account", account)
	res, err := c.Do(r)
	if err != nil {
		w.T.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		w.T.Fatal(err)
	}
	return answer{body: string(text)}.node()
}

// TestPolicyOfTheListener keeps each account on a node, and exchanges the policy
// for a script that goes by the class of a request.
func TestPolicyOfTheListener(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		for range 3 {
			w.node(simulator.APIOptions{}, nil)
		}
		w.Config.Policy = &config.Policy{Name: "sticky", Settings: &policies.Sticky{Header: "x-account"}}
		put, stop := w.start()
		defer stop()
		c := w.client()
		homes := map[string]bool{}
		for i := range 20 {
			account := fmt.Sprintf("account%d", i)
			home := w.asAccount(c, account, getAccount)
			homes[home] = true
			for range 4 {
				if got := w.asAccount(c, account, compute); got != home {
					t.Fatalf("%s is on %s and on %s", account, home, got)
				}
			}
		}
		if len(homes) < 2 {
			t.Errorf("all accounts are on one node: %v", homes)
		}
		p := &lua.Policy{Script: "s.lua", Timeout: "1s"}
		if err := p.Load(func(string) (string, error) {
			return `function score(r, s) return (s.endpoint == "api-2:8888") == (r.class == "exec") and 1 or 0 end`, nil
		}); err != nil {
			t.Fatal(err)
		}
		put(w.whole(w.changed(func(l *config.Listener, _ *config.ChainAPI) {
			l.Policy = &config.Policy{Name: lua.Name, Settings: p}
		})))
		for range 6 {
			if got := w.asAccount(c, "a", compute); got != "n2" {
				t.Errorf("an exec call is on %s", got)
			}
			if got := w.asAccount(c, "a", getAccount); got == "n2" {
				t.Error("a state call is on the node for exec calls")
			}
		}
	})
}
