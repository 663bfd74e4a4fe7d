package gateway

import (
	"fmt"
	"reflect"

	"flotilla/gateway/config"
	"flotilla/policies"
)

// chosen is the policy of a listener of any protocol: its block, nil for none,
// and what runs for it. It is never changed.
type chosen struct {
	block   *config.Policy
	running policies.Policy
}

// choosePolicy makes the policy that a block asks for. One that runs with the
// same settings goes on; now is nil for a new listener.
func choosePolicy(now *chosen, block *config.Policy, env policies.Env) (*chosen, error) {
	switch {
	case now != nil && reflect.DeepEqual(now.block, block):
		return now, nil
	case block == nil:
		return &chosen{running: policies.New(policies.Default)}, nil
	}
	c := &chosen{block, block.New()}
	if err := provision(c.running, env); err != nil {
		return nil, fmt.Errorf("policy %q: %w", block.Name, err)
	}
	return c, nil
}

// provision gives a policy or a stage what it needs of its listener.
func provision(part any, env policies.Env) error {
	if p, ok := part.(policies.Provisioner); ok {
		return p.Provision(env)
	}
	return nil
}

// name is that of the policy.
func (c *chosen) name() string {
	if c.block == nil {
		return policies.Default
	}
	return c.block.Name
}
