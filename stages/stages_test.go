package stages_test

import (
	"slices"
	"strings"
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/pipeline"
	"flotilla/policies"
	"flotilla/stages"
	"flotilla/stages/selection"
)

// Each stage is found by the name that it has itself, and takes part in the
// pipeline.
func TestRegistry(t *testing.T) {
	used := append(slices.Clone(stages.Up), stages.Down...)
	for name, construct := range stages.Registry() {
		if got := construct(&config.Listener{}).Name(); got != name {
			t.Errorf("%q is registered as %q", got, name)
		}
		if !slices.Contains(used, name) {
			t.Errorf("stage %q has no place in the order", name)
		}
	}
}

// Blocks of the configuration can stand next to every stage, and to no other.
func TestConfigurationKnowsTheStages(t *testing.T) {
	used := append(slices.Clone(stages.Up), stages.Down...)
	slices.Sort(used)
	known := slices.Sorted(slices.Values(config.BuiltinStages))
	if used = slices.Compact(used); !slices.Equal(used, known) {
		t.Errorf("the configuration knows %q, there are %q", known, used)
	}
}

// own is a stage on the way up, both has both ways.
type own struct{ name string }

func (o *own) Name() string                      { return o.name }
func (*own) Up(*pipeline.Exchange) pipeline.Step { return pipeline.Step{} }

type both struct{ own }

func (*both) Down(*pipeline.Exchange, *pipeline.Result) pipeline.Step { return pipeline.Step{} }

func TestOwnStages(t *testing.T) {
	a, b, c := &own{"a"}, &own{"b"}, &both{own{"c"}}
	for _, tc := range []struct {
		name string
		own  []stages.Own
		want string
	}{
		{"after", []stages.Own{{Stage: a, After: "plan"}}, "decode plan a select forward | forward dedup rewrite"},
		{"first of all", []stages.Own{{Stage: a, Before: "decode"}}, "a decode plan select forward | forward dedup rewrite"},
		{"one after another", []stages.Own{{Stage: a, After: "plan"}, {Stage: b, After: "a"}}, "decode plan a b select forward | forward dedup rewrite"},
		{"both ways", []stages.Own{{Stage: c, After: "forward"}}, "decode plan select forward c | forward c dedup rewrite"},
		{"not on the way", []stages.Own{{Stage: a, After: "dedup"}}, `stage "a" takes part on the way up`},
		{"on one way of two", []stages.Own{{Stage: c, After: "plan"}}, `stage "c" takes part on the way down`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, err := stages.With(&config.Listener{}, selection.With(nil, policies.New(policies.Default)), tc.own)
			if err != nil {
				if !strings.Contains(err.Error(), tc.want) {
					t.Errorf("the error is %v, want %s", err, tc.want)
				}
				return
			}
			up := strings.TrimSuffix(strings.TrimPrefix(p.Order()[0], "client > "), " > node")
			down := strings.TrimSuffix(strings.TrimPrefix(p.Order()[1], "node > "), " > client")
			if got := strings.ReplaceAll(up+" | "+down, " >", ""); got != tc.want {
				t.Errorf("the order is %s, want %s", got, tc.want)
			}
		})
	}
}

// The order is what the rules of the stages build on: the credit is taken
// before a repetition gives it back, and what the client has is judged before
// head and LIB are raised.
func TestPipelineOrder(t *testing.T) {
	p, err := stages.Pipeline(&config.Listener{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"client > decode > plan > select > forward > node", "node > forward > dedup > rewrite > client"}
	if got := p.Order(); !slices.Equal(got, want) {
		t.Errorf("the order is %q, want %q", got, want)
	}
}
