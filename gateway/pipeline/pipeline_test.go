package pipeline_test

import (
	"slices"
	"strings"
	"testing"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
)

// calls notes which stages were called, in order.
type calls struct{ names []string }

func (c *calls) note(name string) { c.names = append(c.names, name) }

// named is a stage that takes part in neither way.
type named string

func (n named) Name() string { return string(n) }

type upward struct {
	named
	*calls
	step pipeline.Step
}

func (s upward) Up(*pipeline.Exchange) pipeline.Step { s.note("up " + s.Name()); return s.step }

type downward struct {
	named
	*calls
	step pipeline.Step
}

func (s downward) Down(*pipeline.Exchange, *pipeline.Result) pipeline.Step {
	s.note("down " + s.Name())
	return s.step
}

type both struct{ upward }

func (s both) Down(*pipeline.Exchange, *pipeline.Result) pipeline.Step {
	s.note("down " + s.Name())
	return pipeline.Step{}
}

// registry holds the stages a and b on the way up, y and z on the way down,
// two on both, and none on neither. up and down are what a and y answer.
func registry(c *calls, up, down pipeline.Step) pipeline.Registry {
	is := func(s pipeline.Stage) pipeline.Constructor {
		return func(*config.Listener) pipeline.Stage { return s }
	}
	return pipeline.Registry{
		"a":    is(upward{"a", c, up}),
		"b":    is(upward{"b", c, pipeline.Step{}}),
		"y":    is(downward{"y", c, down}),
		"z":    is(downward{"z", c, pipeline.Step{}}),
		"none": is(named("none")),
		"two": func(*config.Listener) pipeline.Stage {
			c.note("make two")
			return both{upward{"two", c, pipeline.Step{}}}
		},
	}
}

func TestBuildRefuses(t *testing.T) {
	for _, c := range []struct {
		up, down []string
		want     string
	}{
		{[]string{"a", "what"}, nil, `no stage is called "what"`},
		{nil, []string{"what"}, `no stage is called "what"`},
		{[]string{"y"}, nil, `stage "y" does not take part on the way up`},
		{nil, []string{"a"}, `stage "a" does not take part on the way down`},
		{[]string{"none"}, nil, `stage "none" does not take part on the way up`},
	} {
		_, err := pipeline.Build(registry(&calls{}, pipeline.Step{}, pipeline.Step{}), c.up, c.down, &config.Listener{})
		if err == nil || err.Error() != c.want {
			t.Errorf("up %v, down %v: error %v, want %s", c.up, c.down, err, c.want)
		}
	}
}

func TestBuildGivesTheListenerToEachStage(t *testing.T) {
	cfg := &config.Listener{Name: "eos"}
	var got *config.Listener
	_, err := pipeline.Build(pipeline.Registry{"a": func(l *config.Listener) pipeline.Stage {
		got = l
		return upward{"a", &calls{}, pipeline.Step{}}
	}}, []string{"a"}, nil, cfg)
	if err != nil || got != cfg {
		t.Errorf("the stage was made for %v (%v)", got, err)
	}
}

func TestOrder(t *testing.T) {
	var c calls
	p, err := pipeline.Build(registry(&c, pipeline.Step{}, pipeline.Step{}), []string{"b", "two", "a"}, []string{"z", "two", "y"}, &config.Listener{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"client > b > two > a > node", "node > z > two > y > client"}
	if got := p.Order(); !slices.Equal(got, want) {
		t.Errorf("the order is told as %q", got)
	}
	if step := p.Up(&pipeline.Exchange{}); step != (pipeline.Step{}) {
		t.Errorf("up ends with %+v", step)
	}
	if step := p.Down(&pipeline.Exchange{}, &pipeline.Result{}); step != (pipeline.Step{}) {
		t.Errorf("down ends with %+v", step)
	}
	if got := strings.Join(c.names, ", "); got != "make two, up b, up two, up a, down z, down two, down y" {
		t.Errorf("called: %s", got)
	}
}

// TestStop: the first stage that does not say Next has the last word.
func TestStop(t *testing.T) {
	for _, stop := range []pipeline.Step{
		{Do: pipeline.Done},
		pipeline.Leaving(fleet.EndUncovered),
		pipeline.Closing(1008, "too many %s", "words"),
	} {
		var c calls
		p, err := pipeline.Build(registry(&c, stop, stop), []string{"a", "b"}, []string{"y", "z"}, &config.Listener{})
		if err != nil {
			t.Fatal(err)
		}
		if got := p.Up(&pipeline.Exchange{}); got != stop {
			t.Errorf("up ends with %+v, want %+v", got, stop)
		}
		if got := p.Down(&pipeline.Exchange{}, &pipeline.Result{}); got != stop {
			t.Errorf("down ends with %+v, want %+v", got, stop)
		}
		if got := strings.Join(c.names, ", "); got != "up a, down y" {
			t.Errorf("called: %s", got)
		}
	}
}

func TestSteps(t *testing.T) {
	if got, want := pipeline.Closing(1011, "block %d", 7), (pipeline.Step{Do: pipeline.CloseClient, Code: 1011, Reason: "block 7"}); got != want {
		t.Errorf("Closing is %+v", got)
	}
	if got, want := pipeline.Leaving(fleet.EndStall), (pipeline.Step{Do: pipeline.EndLink, Reason: "stall"}); got != want || got.End() != fleet.EndStall {
		t.Errorf("Leaving is %+v", got)
	}
}
