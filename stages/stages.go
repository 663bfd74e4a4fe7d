// Package stages lists the built-in stages and the order that requests and
// results pass them in.
package stages

import (
	"fmt"
	"slices"
	"strings"

	"flotilla/gateway/config"
	"flotilla/gateway/pipeline"
	"flotilla/stages/decode"
	"flotilla/stages/dedup"
	"flotilla/stages/forward"
	"flotilla/stages/plan"
	"flotilla/stages/rewrite"
	"flotilla/stages/selection"
)

// Up is the way of a request, from the client to a node; Down is the way of a
// result, back. This is the one place where the order stands.
var (
	Up   = []string{decode.Name, plan.Name, selection.Name, forward.Name}
	Down = []string{forward.Name, dedup.Name, rewrite.Name}
)

// Registry returns the built-in stages by name.
func Registry() pipeline.Registry {
	return pipeline.Registry{
		decode.Name:    decode.New,
		plan.Name:      plan.New,
		selection.Name: selection.New,
		forward.Name:   forward.New,
		dedup.Name:     dedup.New,
		rewrite.Name:   rewrite.New,
	}
}

// Pipeline makes the pipeline of a listener with the built-in stages and the
// default policy.
func Pipeline(cfg *config.Listener) (*pipeline.Pipeline, error) {
	return pipeline.Build(Registry(), Up, Down, cfg)
}

// Own is a stage beside the built-in ones, and the one that it stands next to.
type Own struct {
	pipeline.Stage
	// After and Before are names of stages, of which one is "".
	After, Before string
}

// With makes the pipeline of a listener with this select stage, and with stages
// of its own. Each of these takes part in the ways that it has a method for; it
// is an error when the stage next to it is not on one of them.
func With(cfg *config.Listener, sel *selection.Stage, own []Own) (*pipeline.Pipeline, error) {
	registry := Registry()
	registry[selection.Name] = func(*config.Listener) pipeline.Stage { return sel }
	up, down := slices.Clone(Up), slices.Clone(Down)
	for _, o := range own {
		registry[o.Name()] = func(*config.Listener) pipeline.Stage { return o.Stage }
		_, upward := o.Stage.(pipeline.Upward)
		_, downward := o.Stage.(pipeline.Downward)
		var err error
		if up, err = o.insert(up, upward, "up"); err != nil {
			return nil, err
		}
		if down, err = o.insert(down, downward, "down"); err != nil {
			return nil, err
		}
	}
	return pipeline.Build(registry, up, down, cfg)
}

// insert puts the stage where it stands on a way, if it takes part in it.
func (o *Own) insert(names []string, part bool, way string) ([]string, error) {
	if !part {
		return names, nil
	}
	i := slices.Index(names, o.After+o.Before)
	switch {
	case i < 0:
		return nil, fmt.Errorf("stage %q takes part on the way %s, and stands next to %q, which does not; there are %s",
			o.Name(), way, o.After+o.Before, strings.Join(names, ", "))
	case o.After != "":
		i++
	}
	return slices.Insert(names, i, o.Name()), nil
}
