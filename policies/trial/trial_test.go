package trial_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"flotilla/policies/trial"
)

func load(t *testing.T, text string) (*trial.Script, *bytes.Buffer) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "s.lua")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s, err := trial.Load(path, &log)
	if err != nil {
		t.Fatal(err)
	}
	return s, &log
}

func cases(t *testing.T, text string) []trial.Case {
	t.Helper()
	c, err := trial.Cases("c.hcl", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// What a case says, and what it leaves out, is what the script sees.
func TestRun(t *testing.T) {
	s, _ := load(t, `
function select(r, list)
  assert(r.protocol == "evm" and r.client == "10.0.0.1" and r.headers["x-a"] == "b" and r.start_block == 5 and r.end_block == 9 and r.traces)
  assert(r.methods[2] == "eth_call" and r.session == 4 and r.listener == "test")
  local a, b = list[1], list[2]
  assert(a.name == "a" and a.labels.rack == "r1" and a.head == 90 and a.lag == 10 and a.lib == 80 and a.weight == 1 and a.latency == 0.005)
  assert(a.traces_begin == 3 and a.traces_end == 91 and a.role == "live" and a.online)
  assert(b.name == "b" and b.head == 100 and b.lag == 0 and b.weight == 3 and b.sessions == 8 and b.priority == 0 and b.stale and b.role == "frozen")
  return {b}
end`)
	c := cases(t, `
case "all" {
  request {
    protocol    = "evm"
    client      = "10.0.0.1"
    headers     = { X-A = "b" }
    session     = 4
    start_block = 5
    end_block   = 9
    traces      = true
    methods     = ["eth_blockNumber", "eth_call"]
  }
  server "a" {
    labels      = { rack = "r1" }
    head        = 90
    lib         = 80
    latency     = "5ms"
    first_block = 3
  }
  server "b" {
    head     = 100
    weight   = 3
    sessions = 8
    stale    = true
    role     = "frozen"
  }
  expect = ["b"]
}`)
	r := s.Run(&c[0])
	if !r.Right(&c[0]) || !slices.Equal(r.Before, []string{"a", "b"}) || !slices.Equal(r.Dropped, []string{"a"}) || r.Took <= 0 {
		t.Errorf("the result is %+v", r)
	}
}

func TestFailures(t *testing.T) {
	c := cases(t, `case "x" {
  server "a" {}
  server "b" {}
}`)
	for script, says := range map[string]string{
		"function select(r, s) error('broken') end": "s.lua:1: broken",
		"function select(r, s) return {} end":       "keeps no server",
		"function select(r, s) return 3 end":        "a number value",
	} {
		s, log := load(t, script)
		r := s.Run(&c[0])
		if !strings.Contains(r.Failed, says) || r.Right(&c[0]) || len(r.After) != 2 {
			t.Errorf("%s: %+v, want %q; the log is %s", script, r, says, log.String())
		}
	}
}

func TestBadCases(t *testing.T) {
	for text, says := range map[string]string{
		"":                                  "has no case",
		"case {}":                           "c.hcl:1:6",
		"case \"x\" {}":                     "no server",
		"case \"x\" {\n  srver \"a\" {}\n}": "c.hcl:2:3",
		"case \"x\" {\n  server \"a\" { head = -1 }\n}":                  "c.hcl:2",
		"case \"x\" {\n  server \"a\" { heads = 1 }\n}":                  "heads",
		"case \"x\" {\n  server \"a\" {}\n  server \"a\" {}\n}":          "two servers",
		"case \"x\" {\n  server \"a\" { latency = \"5\" }\n}":            "no time",
		"case \"x\" {\n  server \"a\" { weight = 0 }\n}":                 "at least 1",
		"case \"x\" {\n  server \"a\" {}\n  expect = [\"b\"]\n}":         "expects \"b\"",
		"case \"x\" {\n  request {}\n  request {}\n  server \"a\" {}\n}": "request",
	} {
		if _, err := trial.Cases("c.hcl", []byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

func TestExampleCases(t *testing.T) {
	if got := cases(t, trial.Example); len(got) != 2 {
		t.Errorf("there are %d", len(got))
	}
}

func FuzzCases(f *testing.F) {
	f.Add(trial.Example)
	f.Add("case \"x\" {\n  request { headers = { a = 1 } }\n  server \"a\" { labels = { b = null } }\n}")
	f.Fuzz(func(t *testing.T, text string) {
		// No panic is all that is asked for, in reading and in running.
		list, err := trial.Cases("c.hcl", []byte(text))
		if err != nil {
			return
		}
		path := filepath.Join(t.TempDir(), "s.lua")
		if err := os.WriteFile(path, []byte("function score(r, s) return s.head end"), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := trial.Load(path, &bytes.Buffer{})
		if err != nil {
			t.Fatal(err)
		}
		for i := range list {
			if r := s.Ask(&list[i]); r.Failed != "" || len(r.After) != len(list[i].Servers) {
				t.Errorf("the result is %+v", r)
			}
		}
	})
}
