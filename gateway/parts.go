package gateway

import (
	"fmt"
	"reflect"

	"flotilla/gateway/config"
	"flotilla/gateway/pipeline"
	"flotilla/policies"
	"flotilla/stages"
	"flotilla/stages/selection"
)

// RegisterStage makes a stage known to configurations: a listener has it where
// its block says, stage "name" { after = "plan" }. make returns a pointer to a
// struct with default settings, whose fields with an hcl tag are the attributes
// of the block. Each listener has a stage of its own, which goes on across
// reloads for as long as its block says the same.
//
// A stage may implement policies.Validator and policies.Provisioner. It panics
// when the name is taken: call it first thing in main.
func RegisterStage(name string, make func() pipeline.Stage) {
	config.RegisterStage(name, func() any { return make() })
}

// parts are what the configuration chose for the requests of a listener: the
// policy and the stages of its own. They are never changed.
type parts struct {
	*chosen
	own []ownStage
	// selection and pipeline are made of them.
	selection *selection.Stage
	pipeline  *pipeline.Pipeline
	// headers are those that the policy wants of each client, in lower case.
	headers []string
}

// ownStage is a stage block and the stage that runs for it.
type ownStage struct {
	block *config.Stage
	stage pipeline.Stage
}

// loadParts makes what a configuration wants. What is the same as now goes on.
func (l *listener) loadParts(cfg *config.Listener) (*parts, error) {
	now := l.parts.Load()
	if now != nil && reflect.DeepEqual(now.block, cfg.Policy) && reflect.DeepEqual(now.blocks(), cfg.Stages) {
		return now, nil
	}
	var before *chosen
	if now != nil {
		before = now.chosen
	}
	policy, err := choosePolicy(before, cfg.Policy, l.env())
	if err != nil {
		return nil, fmt.Errorf("listener %s: %w", cfg.Name, err)
	}
	p := &parts{chosen: policy, headers: policies.HeadersOf(policy.running), selection: selection.With(cfg, policy.running)}
	var own []stages.Own
	for _, block := range cfg.Stages {
		stage := now.stage(block)
		if stage == nil {
			if stage, err = l.newStage(block); err != nil {
				return nil, fmt.Errorf("listener %s: stage %q: %w", cfg.Name, block.Name, err)
			}
		}
		p.own = append(p.own, ownStage{block, stage})
		own = append(own, stages.Own{Stage: stage, After: block.After, Before: block.Before})
	}
	if p.pipeline, err = stages.With(cfg, p.selection, own); err != nil {
		return nil, fmt.Errorf("listener %s: %w", cfg.Name, err)
	}
	return p, nil
}

func (l *listener) newStage(block *config.Stage) (pipeline.Stage, error) {
	stage := block.New().(pipeline.Stage)
	if name := stage.Name(); name != block.Name {
		return nil, fmt.Errorf("it calls itself %q", name)
	}
	return stage, provision(stage, l.env())
}

// env is what the listener offers to its policy and stages.
func (l *listener) env() policies.Env { return policies.Env{Listener: l.name, Log: l.log} }

// blocks are the stage blocks as the configuration has them.
func (p *parts) blocks() (blocks []*config.Stage) {
	for _, o := range p.own {
		blocks = append(blocks, o.block)
	}
	return blocks
}

// stage is the one that runs with the settings of a block; nil for none.
func (p *parts) stage(block *config.Stage) pipeline.Stage {
	if p == nil {
		return nil
	}
	for _, o := range p.own {
		if o.block.Name == block.Name && reflect.DeepEqual(o.block.Settings, block.Settings) {
			return o.stage
		}
	}
	return nil
}

// wanted are the headers that the policy wants to see, of those that value gives.
func (p *parts) wanted(value func(name string) []byte) map[string]string {
	var wanted map[string]string
	for _, name := range p.headers {
		if v := value(name); len(v) > 0 {
			if wanted == nil {
				wanted = map[string]string{}
			}
			wanted[name] = string(v[:min(len(v), policies.MaxHeader)])
		}
	}
	return wanted
}

// adopt has the requests of the listener take another way from now on.
func (l *listener) adopt(p *parts) {
	if l.parts.Swap(p) == p {
		return
	}
	l.host.Pipeline.Become(p.pipeline)
	for _, way := range p.pipeline.Order() {
		l.log.Debug("pipeline", "order", way)
	}
}
