// Package lua is the policy that asks a script of the operator's.
package lua

import "flotilla/policies"

// Name is the name of the policy.
const Name = "lua"

// Policy asks a script.
type Policy struct {
	Script string `hcl:"script"`
}

// Order is policies.Policy.
func (p *Policy) Order(r *policies.Request, servers []*policies.Server, n int) []*policies.Server {
	return servers
}
