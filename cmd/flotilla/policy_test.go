package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"flotilla/gateway/config"
	"flotilla/policies/choice"
)

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPolicyTest(t *testing.T) {
	rack := writeFile(t, "s.lua", "function score(r, s) return s.labels.rack == 'r1' and 1 or 0 end")
	drop := writeFile(t, "s.lua", "function select(r, s) return {s[2]} end")
	broken := writeFile(t, "s.lua", "function select(r, s) return s[1].nothing end")
	cases := func(expect string) string {
		return writeFile(t, "c.hcl", "case \"one\" {\n  server \"a\" {}\n  server \"b\" { sessions = 1 }\n  expect = "+expect+"\n}")
	}
	for _, c := range []struct {
		name, script, file string
		says               []string
		fails              string
	}{
		{"its own cases", rack, "", []string{"before  r2-big, r1-small, r1-big", "after   r1-small, r1-big, r2-big", "took "}, ""},
		{"as expected", drop, cases(`["b"]`), []string{"before  a, b", "after   b", "drops   a"}, ""},
		{"not as expected", drop, cases(`["a"]`), []string{"WRONG   a was expected"}, "1 of 1 cases"},
		{"a script that fails", broken, "", []string{`FAILED  `, `no field "nothing"`, "after   r2-big"}, "2 of 2 cases"},
		{"no script", "nothing.lua", "", nil, "nothing.lua"},
		{"no cases", rack, "nothing.hcl", nil, "nothing.hcl"},
		{"a bad case", rack, cases("["), nil, "c.hcl:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			err := testPolicy(&out, c.script, c.file)
			if (err == nil) != (c.fails == "") || err != nil && !strings.Contains(err.Error(), c.fails) {
				t.Errorf("the error is %v, want %q", err, c.fails)
			}
			for _, says := range c.says {
				if !strings.Contains(out.String(), says) {
					t.Errorf("there is no %q in\n%s", says, out.String())
				}
			}
		})
	}
}

func TestPolicyExplain(t *testing.T) {
	var asked string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.Path + " " + r.URL.Query().Get("request")
		switch {
		case !strings.Contains(r.URL.Path, "/eos/"):
			http.NotFound(w, r)
		case r.URL.Query().Get("request") == "{":
			http.Error(w, "request is not what is expected", http.StatusBadRequest)
		default:
			_ = json.NewEncoder(w).Encode(choice.Answer{Listener: "eos", Head: 9, Steps: []string{"first", "second"}})
		}
	}))
	defer s.Close()
	admin := strings.TrimPrefix(s.URL, "http://")
	var out bytes.Buffer
	if err := explainPolicy(t.Context(), &out, admin, "eos", `{"start_block":5}`, false); err != nil {
		t.Fatal(err)
	}
	if asked != `/api/v1/listeners/eos/explain {"start_block":5}` || out.String() != "listener eos, head 9, LIB 0\n 1. first\n 2. second\n" {
		t.Errorf("asked %s, said %s", asked, out.String())
	}
	out.Reset()
	if err := explainPolicy(t.Context(), &out, admin, "eos", "{}", true); err != nil || !json.Valid(out.Bytes()) {
		t.Errorf("as JSON it is %s, %v", out.String(), err)
	}
	for request, c := range map[string]struct{ listener, says string }{"{}": {"wax", `no listener "wax"`}, "{": {"eos", "not what is expected"}} {
		if err := explainPolicy(t.Context(), &out, admin, c.listener, request, false); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", request, err, c.says)
		}
	}
	s.Close()
	if err := explainPolicy(t.Context(), &out, admin, "eos", "{}", false); err == nil || !strings.Contains(err.Error(), admin) {
		t.Errorf("without a gateway: %v", err)
	}
}

func TestExplained(t *testing.T) {
	one := &config.Config{Admin: &config.Admin{Address: "0.0.0.0:9090"}, Listeners: []*config.Listener{{Name: "eos"}}}
	two := &config.Config{Listeners: []*config.Listener{{Name: "eos"}, {Name: "wax"}}}
	if admin, listener, err := explained(one, "", ""); admin != "127.0.0.1:9090" || listener != "eos" || err != nil {
		t.Errorf("%s %s %v", admin, listener, err)
	}
	if admin, listener, err := explained(one, "h:1", "x"); admin != "h:1" || listener != "x" || err != nil {
		t.Errorf("%s %s %v", admin, listener, err)
	}
	if _, _, err := explained(two, "", "eos"); err == nil || !strings.Contains(err.Error(), "--admin") {
		t.Errorf("without an admin port: %v", err)
	}
	if _, _, err := explained(two, "h:1", ""); err == nil || !strings.Contains(err.Error(), "--listener") {
		t.Errorf("with two listeners: %v", err)
	}
}
