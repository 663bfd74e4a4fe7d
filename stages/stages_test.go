package stages_test

import (
	"slices"
	"testing"

	"flotilla/gateway/config"
	"flotilla/stages"
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
