// Package stages lists the built-in stages and the order that requests and
// results pass them in.
package stages

import (
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

// Pipeline makes the pipeline of a listener.
func Pipeline(cfg *config.Listener) (*pipeline.Pipeline, error) {
	return pipeline.Build(Registry(), Up, Down, cfg)
}
