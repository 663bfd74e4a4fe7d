package stitched_test

import (
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages/dedup"
	"flotilla/stages/forward"
	"flotilla/stages/plan"
	"flotilla/stages/rewrite"
	"flotilla/stages/selection"
)

// wrong is a stage that has a mistake: it does something else before or after
// the real one, or in its place.
type wrong struct {
	pipeline.Stage
	up   func(real pipeline.Upward, x *pipeline.Exchange) pipeline.Step
	down func(real pipeline.Downward, x *pipeline.Exchange, r *pipeline.Result) pipeline.Step
}

func (w *wrong) Up(x *pipeline.Exchange) pipeline.Step {
	if w.up == nil {
		return w.Stage.(pipeline.Upward).Up(x)
	}
	return w.up(w.Stage.(pipeline.Upward), x)
}

func (w *wrong) Down(x *pipeline.Exchange, r *pipeline.Result) pipeline.Step {
	if w.down == nil {
		return w.Stage.(pipeline.Downward).Down(x, r)
	}
	return w.down(w.Stage.(pipeline.Downward), x, r)
}

// up are rules with a mistake in a stage on the way up.
func up(name string, f func(real pipeline.Upward, x *pipeline.Exchange) pipeline.Step) *rules {
	r := theRules()
	make := r.registry[name]
	r.registry[name] = func(cfg *config.Listener) pipeline.Stage { return &wrong{Stage: make(cfg), up: f} }
	return r
}

// down are rules with a mistake in a stage on the way down.
func down(name string, f func(real pipeline.Downward, x *pipeline.Exchange, r *pipeline.Result) pipeline.Step) *rules {
	r := theRules()
	make := r.registry[name]
	r.registry[name] = func(cfg *config.Listener) pipeline.Stage { return &wrong{Stage: make(cfg), down: f} }
	return r
}

// planning is up for a mistake in the plan of a leg: the exchange is changed
// before, and put right again after.
func planning(before, after func(x *pipeline.Exchange)) *rules {
	return up(plan.Name, func(real pipeline.Upward, x *pipeline.Exchange) pipeline.Step {
		if x.Cause == pipeline.Received {
			return real.Up(x)
		}
		was := *x
		if before != nil {
			before(x)
		}
		step := real.Up(x)
		made, who := x.Plan, x.Candidates
		*x = was
		x.Plan, x.Candidates = made, who
		if after != nil {
			after(x)
		}
		return step
	})
}

// viewed changes a copy of the upstreams that the planner sees.
func viewed(change func(u *fleet.Upstream)) *rules {
	return planning(func(x *pipeline.Exchange) {
		v := *x.View
		v.Upstreams = append([]fleet.Upstream(nil), v.Upstreams...)
		for i := range v.Upstreams {
			change(&v.Upstreams[i])
		}
		x.View = &v
	}, nil)
}

// mutants are rules that are broken, each in one point.
var mutants = map[string]func() *rules{
	"a leg on an archive ends one block late": func() *rules {
		return planning(nil, func(x *pipeline.Exchange) {
			for i := range x.Candidates {
				if c := &x.Candidates[i]; x.View.Upstreams[c.Index].Frozen() {
					c.Run++
				}
			}
		})
	},
	"a leg ends one block early": func() *rules {
		return planning(nil, func(x *pipeline.Exchange) {
			for i := range x.Candidates {
				if c := &x.Candidates[i]; c.Run != fleet.NoBlock {
					c.Run--
				}
			}
		})
	},
	"a leg never ends": func() *rules {
		return planning(nil, func(x *pipeline.Exchange) {
			for i := range x.Candidates {
				x.Candidates[i].Run = x.Want.End
			}
		})
	},
	"the gate of irreversible requests is the head": func() *rules {
		return planning(func(x *pipeline.Exchange) { x.Want.Irreversible = false }, nil)
	},
	"the logs that are asked for do not count": func() *rules {
		return planning(func(x *pipeline.Exchange) {
			x.Want.FetchTraces, x.Want.FetchDeltas, x.Want.FetchFinality = false, false, false
		}, nil)
	},
	"who has failed is not remembered": func() *rules {
		return planning(func(x *pipeline.Exchange) { x.Soft, x.StuckAt, x.LeftAt = pipeline.None, 0, 0 }, nil)
	},
	"a stall is not remembered": func() *rules {
		return planning(func(x *pipeline.Exchange) { x.LeftAt = 0 }, nil)
	},
	"full servers are asked": func() *rules {
		return planning(func(x *pipeline.Exchange) {
			v := *x.View
			v.Upstreams = append([]fleet.Upstream(nil), v.Upstreams...)
			for i := range v.Upstreams {
				unlimited := *v.Upstreams[i].Server
				unlimited.MaxSessions = 0
				v.Upstreams[i].Server = &unlimited
			}
			x.View = &v
		}, nil)
	},
	"stale servers are taken for offline": func() *rules {
		return viewed(func(u *fleet.Upstream) { u.Online = u.Online && !u.Stale })
	},
	"archives alone have history": func() *rules {
		return viewed(func(u *fleet.Upstream) { u.Disabled = u.Disabled || !u.Frozen() && u.Head.Num > 45 })
	},
	"a wait is taken for a gap": func() *rules {
		return planning(nil, func(x *pipeline.Exchange) {
			if x.Plan.Do == pipeline.Wait && x.View.Place(x.Cursor) != fleet.Hole {
				x.Plan = pipeline.Plan{Do: pipeline.Gap}
			}
		})
	},
	"every hold has a limit": func() *rules {
		return planning(nil, func(x *pipeline.Exchange) { x.Plan.Bounded = true })
	},
	"the worst of the candidates is picked": func() *rules {
		return up(selection.Name, func(real pipeline.Upward, x *pipeline.Exchange) pipeline.Step {
			for i := range x.Candidates {
				x.Candidates[i].Rank *= -1
			}
			return real.Up(x)
		})
	},

	"repetitions at a seam are passed on": func() *rules {
		return down(dedup.Name, func(real pipeline.Downward, x *pipeline.Exchange, r *pipeline.Result) pipeline.Step {
			if r.Num >= x.Cursor || x.Link.Frozen || !r.HasThis {
				return real.Down(x, r)
			}
			x.Cursor, r.Fork = r.Num+1, true
			x.Delivered.Add(&r.This)
			return pipeline.Step{}
		})
	},
	"repetitions are not refunded": func() *rules {
		return down(dedup.Name, func(real pipeline.Downward, x *pipeline.Exchange, r *pipeline.Result) pipeline.Step {
			step := real.Down(x, r)
			if step.Do == pipeline.Done {
				x.Ack--
			}
			return step
		})
	},
	"an archive may skip blocks": func() *rules {
		return down(dedup.Name, func(real pipeline.Downward, x *pipeline.Exchange, r *pipeline.Result) pipeline.Step {
			if x.Link.Frozen && r.Num > x.Cursor {
				x.Cursor = r.Num
			}
			return real.Down(x, r)
		})
	},
	"an archive may break the chain": func() *rules {
		return down(dedup.Name, func(real pipeline.Downward, x *pipeline.Exchange, r *pipeline.Result) pipeline.Step {
			x.Link.First = x.Link.First && !x.Link.Frozen
			return real.Down(x, r)
		})
	},
	"prev is not filled in": func() *rules {
		return down(dedup.Name, func(real pipeline.Downward, x *pipeline.Exchange, r *pipeline.Result) pipeline.Step {
			step := real.Down(x, r)
			r.FillPrev = false
			return step
		})
	},
	"prev is filled in with the block itself": func() *rules {
		return down(dedup.Name, func(real pipeline.Downward, x *pipeline.Exchange, r *pipeline.Result) pipeline.Step {
			step := real.Down(x, r)
			if r.FillPrev {
				r.Prev = r.This
			}
			return step
		})
	},
	"an archive may send half a block": func() *rules {
		return down(forward.Name, func(real pipeline.Downward, x *pipeline.Exchange, r *pipeline.Result) pipeline.Step {
			parts := r.Parts
			r.Parts = ship.Parts{Block: true, Traces: true, Deltas: true, Finality: true}
			step := real.Down(x, r)
			r.Parts = parts
			return step
		})
	},
	"an archive may send another version": func() *rules {
		return down(forward.Name, func(real pipeline.Downward, x *pipeline.Exchange, r *pipeline.Result) pipeline.Step {
			v1 := r.V1
			r.V1 = x.Want.V1
			step := real.Down(x, r)
			r.V1 = v1
			return step
		})
	},
	"a result costs nothing": func() *rules {
		return down(forward.Name, func(real pipeline.Downward, x *pipeline.Exchange, r *pipeline.Result) pipeline.Step {
			credit := x.Credit
			step := real.Down(x, r)
			x.Credit = credit
			return step
		})
	},
	"head and LIB of an archive go to the client": func() *rules {
		return down(rewrite.Name, func(pipeline.Downward, *pipeline.Exchange, *pipeline.Result) pipeline.Step { return pipeline.Step{} })
	},

	"the credit is not carried over": func() *rules {
		return building(func(x *pipeline.Exchange, q *ship.BlocksRequest) { q.MaxInFlight = x.Want.MaxInFlight })
	},
	"a leg begins one block late": func() *rules {
		return building(func(x *pipeline.Exchange, q *ship.BlocksRequest) {
			if !x.Fresh {
				q.Start++
			}
		})
	},
	"a leg begins where the client's request does": func() *rules {
		return building(func(x *pipeline.Exchange, q *ship.BlocksRequest) { q.Start = x.Want.Start })
	},
	"the end of a leg is not told": func() *rules {
		return building(func(x *pipeline.Exchange, q *ship.BlocksRequest) { q.End = x.Want.End })
	},
	"nodes at the tip are not told of reversible blocks": func() *rules {
		return building(func(_ *pipeline.Exchange, q *ship.BlocksRequest) { q.Have = nil })
	},
	"violations are no strikes": func() *rules {
		r := theRules()
		r.ended = func(x *pipeline.Exchange, end fleet.End, owed bool) forward.Consequence {
			if end == fleet.EndViolation {
				end = fleet.EndClean
			}
			c := forward.Ended(x, end, owed)
			x.Left = x.Left[:0]
			return c
		}
		return r
	},
	"three strikes close the client": func() *rules {
		r := theRules()
		r.ended = func(x *pipeline.Exchange, end fleet.End, owed bool) forward.Consequence {
			c := forward.Ended(x, end, owed)
			c.Exhausted = len(x.Failed) >= 3
			return c
		}
		return r
	},
	"a failure excludes the server for good": func() *rules {
		r := theRules()
		r.ended = func(x *pipeline.Exchange, end fleet.End, owed bool) forward.Consequence {
			x.Exclude(x.Current, pipeline.Exclusion{Until: x.Now.AddDate(1, 0, 0)})
			return forward.Ended(x, end, owed)
		}
		return r
	},
}

// building are rules with a mistake in the request of a leg.
func building(change func(x *pipeline.Exchange, q *ship.BlocksRequest)) *rules {
	r := theRules()
	r.build = func(x *pipeline.Exchange) ship.BlocksRequest {
		q := forward.Build(x)
		change(x, &q)
		return q
	}
	return r
}

// TestMutants: the property of TestStitched is one that broken rules do not have.
// The plays are the same each time, so that each mutant is found or is not.
func TestMutants(t *testing.T) {
	quietly(t)
	for _, name := range slices.Sorted(maps.Keys(mutants)) {
		t.Run(name, func(t *testing.T) {
			r, seen := mutants[name](), newEvents()
			plays := 0
			f := &finding{name: t.Name()}
			f.run(func() {
				rapid.Check(f, func(t *rapid.T) {
					plays++
					play(t, r, seen)
				})
			})
			if f.text == "" {
				t.Fatalf("%d plays do not find it", plays)
			}
			t.Logf("found within %d plays: %s", plays, f.text)
		})
	}
}

// quietly has rapid make the same plays each time, as many as a mutant may take
// to be found, and neither shrink what it finds nor write it to a file.
func quietly(t *testing.T) {
	for name, value := range map[string]string{"rapid.seed": "3", "rapid.checks": "2000", "rapid.shrinktime": "0s", "rapid.nofailfile": "true", "rapid.failfile": ""} {
		f := flag.Lookup(name)
		was := f.Value.String()
		if err := f.Value.Set(value); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Value.Set(was) })
	}
}

// finding is a test that is expected to fail.
type finding struct {
	name string
	text string
}

type over struct{}

// run calls f, which ends when the test has failed.
func (f *finding) run(g func()) {
	defer func() {
		if p := recover(); p != nil && p != any(over{}) {
			panic(p)
		}
	}()
	g()
}

func (f *finding) Helper()             {}
func (f *finding) Name() string        { return f.name }
func (f *finding) Logf(string, ...any) {}
func (f *finding) Log(...any)          {}
func (f *finding) Skipf(string, ...any) {
	panic("a play is skipped")
}
func (f *finding) Skip(...any) { panic("a play is skipped") }
func (f *finding) SkipNow()    { panic("a play is skipped") }
func (f *finding) Errorf(format string, args ...any) {
	f.text, _, _ = strings.Cut(fmt.Sprintf(format, args...), "\n")
}
func (f *finding) Error(args ...any)                 { f.Errorf("%s", fmt.Sprint(args...)) }
func (f *finding) Fatalf(format string, args ...any) { f.Errorf(format, args...); f.FailNow() }
func (f *finding) Fatal(args ...any)                 { f.Error(args...); f.FailNow() }
func (f *finding) FailNow()                          { panic(over{}) }
func (f *finding) Fail()                             { f.text = "it fails" }
func (f *finding) Failed() bool                      { return f.text != "" }
