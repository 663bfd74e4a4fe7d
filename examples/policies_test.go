package examples

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/policies/trial"
)

func script(t *testing.T, name string) *trial.Script {
	t.Helper()
	s, err := trial.Load(filepath.Join("policies", name+".lua"), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Each script has a file of cases, and is right in all of them.
func TestPolicies(t *testing.T) {
	scripts, err := filepath.Glob("policies/*.lua")
	if err != nil || len(scripts) < 5 {
		t.Fatalf("there are %q: %v", scripts, err)
	}
	for _, path := range scripts {
		name := strings.TrimSuffix(filepath.Base(path), ".lua")
		t.Run(name, func(t *testing.T) {
			file := "policies/" + name + ".hcl"
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			cases, err := trial.Cases(file, text)
			if err != nil {
				t.Fatal(err)
			}
			s := script(t, name)
			for i := range cases {
				if r := s.Run(&cases[i]); !r.Right(&cases[i]) {
					t.Errorf("%s: the order is %q, want %q: %s", cases[i].Name, r.After, cases[i].Expect, r.Failed)
				}
			}
		})
	}
}

func choose(t *testing.T, s *trial.Script, q trial.Request, servers ...*trial.Server) []string {
	t.Helper()
	r := s.Ask(&trial.Case{Request: &q, Servers: servers})
	if r.Failed != "" {
		t.Fatal(r.Failed)
	}
	return r.After
}

func TestShedLoadAtNight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := script(t, "shed-load-at-night")
		first := func() string {
			return choose(t, s, trial.Request{}, &trial.Server{Name: "backup", Labels: map[string]string{"night": "backup"}}, &trial.Server{Name: "other", Sessions: 9})[0]
		}
		// A bubble begins at midnight, UTC.
		for hour := range 24 {
			want := "backup"
			if hour < 6 || hour >= 22 {
				want = "other"
			}
			if got := first(); got != want {
				t.Errorf("at %d:00 the first is %s, want %s", hour, got, want)
			}
			time.Sleep(time.Hour)
		}
	})
}

func TestCanaryGetsItsShare(t *testing.T) {
	s := script(t, "canary")
	const sessions = 2000
	n := 0
	for i := range sessions {
		if choose(t, s, trial.Request{Session: uint64(i + 1)}, &trial.Server{Name: "old"}, &trial.Server{Name: "new", Labels: map[string]string{"canary": "yes"}})[0] == "new" {
			n++
		}
	}
	if n < sessions*4/100 || n > sessions*6/100 {
		t.Errorf("%d of %d sessions are on the canary; five percent are due", n, sessions)
	}
}

func TestTwoNodesPerCustomer(t *testing.T) {
	s := script(t, "two-nodes-per-customer")
	used := map[string]bool{}
	for c := range 40 {
		nodes := map[string]bool{}
		for load := range 12 {
			var fleet []*trial.Server
			for i := range 6 {
				fleet = append(fleet, &trial.Server{Name: fmt.Sprint("n", i), Sessions: int64((i*7 + load*5) % 11)})
			}
			got := choose(t, s, trial.Request{Client: fmt.Sprint("10.0.0.", load), Headers: map[string]string{"x-customer": fmt.Sprint("customer", c)}}, fleet...)
			if len(got) != 2 {
				t.Fatalf("the order is %q", got)
			}
			if at := func(name string) int64 {
				return fleet[slices.IndexFunc(fleet, func(s *trial.Server) bool { return s.Name == name })].Sessions
			}; at(got[0]) > at(got[1]) {
				t.Errorf("the fuller one of %q goes first", got)
			}
			nodes[got[0]], nodes[got[1]] = true, true
		}
		if len(nodes) != 2 {
			t.Errorf("customer %d is on %d nodes", c, len(nodes))
		}
		for name := range nodes {
			used[name] = true
		}
	}
	if len(used) != 6 {
		t.Errorf("all customers together use %d of 6 nodes", len(used))
	}
}
