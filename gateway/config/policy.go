package config

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"flotilla/policies"
	"flotilla/policies/lua"
)

// Policy is a policy block: how a listener chooses among servers that could
// serve a request equally well.
type Policy struct {
	// Name is the label: least_connections, say.
	Name string
	// Settings hold what the block says. They are never run: see New.
	Settings policies.Policy
}

// New is a policy to run, with the settings of the block.
func (p *Policy) New() policies.Policy {
	return ready(withSettings(newPolicy(p.Name), p.Settings))
}

// ready checks settings that were right already: a Validator may work something
// out of them on its way.
func ready[T any](settings T) T {
	if v, ok := any(settings).(policies.Validator); ok {
		_ = v.Validate()
	}
	return settings
}

// newPolicy is a policy with default settings, nil when there is none of that
// name.
func newPolicy(name string) policies.Policy {
	if name == lua.Name {
		return &lua.Policy{}
	}
	return policies.New(name)
}

// policyNames are all that a block may have as its label.
func policyNames() []string { return append(policies.Names(), lua.Name) }

var policyField = policyFieldOf(func(l any) **Policy { return &l.(*draft).Policy })

// policyFieldOf declares the policy block of a kind of listener.
func policyFieldOf(of func(listener any) **Policy) field {
	return field{hcl: "policy", kind: opaque, example: `policy "name" { ... }`,
		decode: func(d *decoder, n *node, target any) {
			l := of(target)
			name, ok := blockName(d, "policy", n)
			if !ok {
				return
			}
			policy := newPolicy(name)
			switch {
			case policy == nil:
				d.report.problem(n.labels[0].at, fmt.Sprintf("policy %s is not known", quote(name)), "one of "+quoted(policyNames())+" is expected")
				return
			case *l != nil:
				d.report.problem(n.at, "policy is given twice", "a listener has one policy")
				return
			}
			if decodeBlock(d, "policy", n, n.raw.body, policy) {
				*l = &Policy{Name: name, Settings: policy}
			}
		},
		blocks: func(target any) []rawBlock {
			p := *of(target)
			if p == nil {
				return nil
			}
			return []rawBlock{{name: p.Name, settings: p.Settings}}
		},
	}
}

// blockName is the label of an opaque block.
func blockName(d *decoder, kind string, n *node) (string, bool) {
	if len(n.labels) != 1 {
		d.report.problem(n.at, fmt.Sprintf("%s has %s", kind, plural(len(n.labels), "label")), fmt.Sprintf("%s \"name\" { ... } is expected", kind))
		return "", false
	}
	return n.labels[0].text, true
}

// fileUser is a policy whose settings name files. Load reads them, with a
// function whose error names the path, and keeps what it needs of them in its
// exported fields; Files are what it has read, for whoever watches them.
type fileUser interface {
	Load(read func(path string) (string, error)) error
	Files() []string
}

// settle checks the settings of a block and reads the files that they name.
func settle(settings any) error {
	if v, ok := settings.(policies.Validator); ok {
		if err := v.Validate(); err != nil {
			return err
		}
	}
	if f, ok := settings.(fileUser); ok {
		return f.Load(readText)
	}
	return nil
}

// Files are the files, beside those of the configuration itself, whose change
// changes it: the scripts of policies.
func (c *Config) Files() (files []string) {
	add := func(p *Policy) {
		if p == nil {
			return
		}
		if f, ok := p.Settings.(fileUser); ok {
			files = append(files, f.Files()...)
		}
	}
	for _, l := range c.Listeners {
		add(l.Policy)
	}
	for _, l := range c.EVM {
		add(l.Policy)
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// decodeBlock fills the settings of an opaque block, and reports whether they
// can be used.
func decodeBlock(d *decoder, kind string, n *node, body any, settings any) bool {
	if !n.raw.decode(body, settings) {
		return false
	}
	if err := settle(settings); err != nil {
		label := n.labels[0]
		d.report.problem(label.at, fmt.Sprintf("%s %s: %s", kind, strconv.Quote(shorten(label.text)), strings.TrimSpace(err.Error())), "")
		return false
	}
	return true
}
