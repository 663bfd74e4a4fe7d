package config

import (
	"errors"
	"reflect"
	"testing"

	"flotilla/policies"
)

// marker is a stage for these tests. It is registered once, as in a main.
type marker struct {
	// double is worked out by Validate.
	double uint64
	Limit  uint64   `hcl:"limit,optional"`
	Names  []string `hcl:"names,optional"`
	// seen is what it remembers while it runs.
	seen map[string]int
}

func (m *marker) Validate() error {
	m.double = 2 * m.Limit
	if m.Limit == 13 {
		return errors.New("limit is unlucky")
	}
	return nil
}

func init() {
	RegisterStage("marker", func() any { return &marker{Limit: 5, seen: map[string]int{}} })
	RegisterStage("other", func() any { return &marker{} })
}

var blockRules = []rule{
	{"unknown policy", hclWith("", `  policy «"lowest" {}`), words(`policy "lowest"`, `"lowest_latency"`, `"lua"`)},
	{"policy twice", hclWith("", "  policy \"first\" {}\n  «policy \"sticky\" {}"), words("policy", "twice")},
	{"policy without a label", hclWith("", `  «policy {}`), words("0 labels", `policy "name"`)},
	{"policy as an attribute", hclWith("", `  policy = «"first"`), words("policy", "block")},
	{"unknown attribute of a policy", hclWith("", "  policy \"sticky\" {\n    «heder = \"x\"\n  }"), words("heder", "header")},
	{"attribute of the wrong type", hclWith("", "  policy \"sticky\" {\n    header = «[1]\n  }"), words("string required")},
	{"a policy that checks itself", hclWith("", "  policy «\"sticky\" {\n    header = \"a b\"\n  }"), words(`policy "sticky"`, `"a b"`)},
	{"unknown variable in a policy", hclWith("", "  policy \"sticky\" {\n    header = local«.x\n  }"), words("attribute")},
	{"unknown stage", hclWith("", `  stage «"mark" { after = "plan" }`), words(`stage "mark"`, `"marker"`)},
	{"stage without a place", hclWith("", `  «stage "marker" {}`), words("does not say where", "after")},
	{"stage in two places", hclWith("", "  «stage \"marker\" {\n    after = \"plan\"\n    before = \"select\"\n  }"), words("both")},
	{"stage next to nothing", hclWith("", `  «stage "marker" { after = "other" }`), words(`"other"`, `"plan"`)},
	{"stage twice", hclWith("", "  stage \"marker\" { after = \"plan\" }\n  stage «\"marker\" { after = \"plan\" }"), words("twice")},
	{"unknown attribute of a stage", hclWith("", "  stage \"marker\" {\n    after = \"plan\"\n    «limits = 3\n  }"), words("limits", "limit")},
	{"a stage that checks itself", hclWith("", "  stage «\"marker\" {\n    after = \"plan\"\n    limit = 13\n  }"), words("unlucky")},
	{"labels that are no texts", hclWith("", "  server \"b\" {\n    endpoint = \"h:1\"\n    labels = «{ rack = 5 }\n  }"), words("labels", `"rack"`)},
}

func TestBlockRules(t *testing.T) {
	for _, r := range blockRules {
		t.Run(r.name, func(t *testing.T) { expectProblem(t, "flotilla.hcl", r.text, r.words...) })
	}
}

func parseBlocks(t *testing.T, body string) *Config {
	t.Helper()
	cfg, _, err := Parse("flotilla.hcl", []byte(hclWith("locals {\n  who = \"x-account\"\n}\n", body)))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

const allBlocks = `  policy "sticky" { header = local.who }
  stage "marker" {
    after = "plan"
    names = ["a", "b"]
  }
  stage "other" {
    before = "marker"
    limit  = 7
  }
  server "b" {
    endpoint = "h:1"
    labels   = { rack = "r1", "size class" = "big" }
  }`

func TestBlocks(t *testing.T) {
	l := parseBlocks(t, allBlocks).Listeners[0]
	if want := (&Policy{"sticky", &policies.Sticky{Header: "x-account"}}); !reflect.DeepEqual(l.Policy, want) {
		t.Errorf("the policy is %+v", l.Policy)
	}
	want := []*Stage{
		{"marker", "plan", "", &marker{double: 10, Limit: 5, Names: []string{"a", "b"}, seen: map[string]int{}}},
		{"other", "", "marker", &marker{double: 14, Limit: 7}},
	}
	if !reflect.DeepEqual(l.Stages, want) {
		t.Errorf("the stages are %+v %+v", l.Stages[0], l.Stages[1])
	}
	if want := map[string]string{"rack": "r1", "size class": "big"}; !reflect.DeepEqual(l.Servers[1].Labels, want) {
		t.Errorf("the labels are %v", l.Servers[1].Labels)
	}
}

// What runs has the settings of the block, and shares nothing with it: the
// configuration stays comparable.
func TestNewSharesNothing(t *testing.T) {
	s := parseBlocks(t, allBlocks).Listeners[0].Stages[0]
	a, b := s.New().(*marker), s.New().(*marker)
	a.seen["x"] = 1
	if len(b.seen) != 0 || len(s.Settings.(*marker).seen) != 0 || b.Limit != 5 || b.double != 10 || len(b.Names) != 2 {
		t.Errorf("one that runs is %+v, the settings are %+v", b, s.Settings)
	}
}

func TestFormatBlocks(t *testing.T) {
	cfg := parseBlocks(t, allBlocks)
	sameAs(t, FormatHCL(cfg), cfg)
}

func TestRegisterStagePanics(t *testing.T) {
	for name, make := range map[string]func() any{
		"marker": func() any { return &marker{} },
		"plan":   func() any { return &marker{} },
		"value":  func() any { return marker{} },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it was taken")
				}
			}()
			RegisterStage(name, make)
		})
	}
}
