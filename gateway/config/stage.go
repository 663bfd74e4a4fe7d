package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"

	"github.com/hashicorp/hcl/v2"
)

// Stage is a stage block: a stage of the operator's own, compiled in, and where
// it stands.
type Stage struct {
	// Name is the label, under which the stage was registered.
	Name string
	// After and Before name the stage that it stands next to; one of them is "".
	After, Before string
	// Settings hold what the block says: a pointer to a struct. They are never
	// run: see New.
	Settings any
}

// New is a stage to run, with the settings of the block.
func (s *Stage) New() any {
	return ready(withSettings(newStage(s.Name), s.Settings))
}

// BuiltinStages are those that a stage block can stand next to, beside the
// blocks before it.
var BuiltinStages = []string{"decode", "plan", "select", "forward", "dedup", "rewrite"}

// registered are the stages that were compiled in. It is the one global that
// changes, as configurations are read before there is anything to hang it on.
var registered struct {
	sync.RWMutex
	stages map[string]func() any
}

// RegisterStage makes a stage known to stage blocks. make returns a pointer to
// a struct with default settings; fields with an hcl tag are the attributes of
// the block. It panics when the name is taken: call it first thing in main.
func RegisterStage(name string, make func() any) {
	if v := reflect.ValueOf(make()); v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("config: stage %q is not a pointer to a struct", name))
	}
	registered.Lock()
	defer registered.Unlock()
	if registered.stages[name] != nil || slices.Contains(BuiltinStages, name) {
		panic(fmt.Sprintf("config: stage %q is registered twice", name))
	}
	if registered.stages == nil {
		registered.stages = map[string]func() any{}
	}
	registered.stages[name] = make
}

// newStage is a registered stage with default settings, nil when there is none.
func newStage(name string) any {
	registered.RLock()
	make := registered.stages[name]
	registered.RUnlock()
	if make == nil {
		return nil
	}
	return make()
}

func stageNames() []string {
	registered.RLock()
	defer registered.RUnlock()
	return slices.Sorted(maps.Keys(registered.stages))
}

// placedStage splits a stage block: what all have, and what is its own.
type placedStage struct {
	After  string   `hcl:"after,optional"`
	Before string   `hcl:"before,optional"`
	Rest   hcl.Body `hcl:",remain"`
}

var stageField = field{hcl: "stage", kind: opaque, example: `stage "name" { ... }`,
	decode: func(d *decoder, n *node, target any) {
		l := target.(*draft)
		name, ok := blockName(d, "stage", n)
		if !ok {
			return
		}
		settings := newStage(name)
		if settings == nil {
			hint := "no stage is compiled into this program beside the built-in ones"
			if names := stageNames(); len(names) > 0 {
				hint = "one of " + quoted(names) + " is expected"
			}
			d.report.problem(n.labels[0].at, fmt.Sprintf("stage %s is not known", quote(name)), hint)
			return
		}
		var place placedStage
		if !n.raw.decode(n.raw.body, &place) {
			return
		}
		s := &Stage{Name: name, After: place.After, Before: place.Before, Settings: settings}
		if !checkStage(d, n, l, s) || !decodeBlock(d, "stage", n, place.Rest, settings) {
			return
		}
		l.Stages = append(l.Stages, s)
	},
	blocks: func(target any) (blocks []rawBlock) {
		for _, s := range target.(*draft).Stages {
			blocks = append(blocks, rawBlock{s.Name, s.Settings, s.After, s.Before})
		}
		return blocks
	},
}

// checkStage looks at the place of a stage.
func checkStage(d *decoder, n *node, l *draft, s *Stage) bool {
	known := slices.Clone(BuiltinStages)
	for _, other := range l.Stages {
		if other.Name == s.Name {
			d.report.problem(n.labels[0].at, fmt.Sprintf("stage %s is given twice", quote(s.Name)), "a listener has a stage once")
			return false
		}
		known = append(known, other.Name)
	}
	next := s.After + s.Before
	switch {
	case s.After != "" && s.Before != "":
		d.report.problem(n.at, fmt.Sprintf("stage %s has both after and before", quote(s.Name)), "give one of them")
	case next == "":
		d.report.problem(n.at, fmt.Sprintf("stage %s does not say where it stands", quote(s.Name)), `give after = "plan", say, or before`)
	case !slices.Contains(known, next):
		d.report.problem(n.at, fmt.Sprintf("stage %s stands next to %s, which is not there", quote(s.Name), quote(next)), "one of "+quoted(known)+" is expected")
	default:
		return true
	}
	return false
}
