package pool

import (
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/gateway/simulator"
	"flotilla/tests/scene"
)

// tally is what a stage has seen.
type tally struct {
	mu                 sync.Mutex
	requests, messages int
	questions, blocks  int
}

// tallies are those that listeners have made, the newest last.
var tallies struct {
	sync.Mutex
	all []*tally
}

func init() {
	gateway.RegisterStage("tally-up", func() pipeline.Stage { return &tallyUp{newTally()} })
	gateway.RegisterStage("tally-down", func() pipeline.Stage { return &tallyDown{newTally()} })
}

func newTally() *tally {
	t := &tally{}
	tallies.Lock()
	defer tallies.Unlock()
	tallies.all = append(tallies.all, t)
	return t
}

// tallyUp and tallyDown count on one way each.
type (
	tallyUp   struct{ *tally }
	tallyDown struct{ *tally }
)

func (*tallyUp) Name() string   { return "tally-up" }
func (*tallyDown) Name() string { return "tally-down" }

func (t *tallyUp) Up(x *pipeline.Exchange) pipeline.Step {
	if x.Cause == pipeline.Connect {
		// As slow as a script may be: others choose meanwhile, and choose again.
		for range 200 {
			runtime.Gosched()
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if x.Cause != pipeline.Received {
		t.questions++
		return pipeline.Step{}
	}
	t.messages++
	if v := x.Request.Variant; v == ship.BlocksRequestV0 || v == ship.BlocksRequestV1 {
		t.requests++
	}
	return pipeline.Step{}
}

func (t *tallyDown) Down(*pipeline.Exchange, *pipeline.Result) pipeline.Step {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.blocks++
	return pipeline.Step{}
}

// TestStageSeesEachRequestOnce has a crowd connect, ask, lose its node and go on
// at another one: a stage sees each request once, and each block that a client
// gets, although the sessions choose more often than that.
func TestStageSeesEachRequestOnce(t *testing.T) {
	const clients = 40
	for _, place := range []config.Stage{
		{Name: "tally-down", After: "dedup", Settings: &tallyDown{}},
		{Name: "tally-up", After: "plan", Settings: &tallyUp{}},
		{Name: "tally-up", Before: "decode", Settings: &tallyUp{}},
	} {
		t.Run(place.After+place.Before, func(t *testing.T) {
			inBubble(t, simulator.ChainOptions{Head: 100}, func(t *testing.T, w *world) {
				for range 3 {
					w.Node(simulator.Options{}, nil)
				}
				w.Config.Stages = []*config.Stage{&place}
				defer w.Start()()
				tallies.Lock()
				seen := tallies.all[len(tallies.all)-1]
				tallies.Unlock()
				crowd := make([]*simulator.Client, clients)
				var dialing sync.WaitGroup
				for i := range crowd {
					dialing.Go(func() { crowd[i] = w.Dial(simulator.ClientOptions{AckEvery: 1}) })
				}
				dialing.Wait()
				for _, c := range crowd {
					w.Ask(c, scene.Everything(2, 1000, 5))
				}
				for _, c := range crowd {
					w.Reaches(c, 100)
				}
				seen.mu.Lock()
				t.Logf("%d clients have asked %d times where to go", clients, seen.questions)
				seen.mu.Unlock()
				w.Nodes[0].Close()
				w.Chain.Advance(5)
				for _, c := range crowd {
					w.Reaches(c, 105)
					w.Clean(c)
				}
				synctest.Wait()
				seen.mu.Lock()
				defer seen.mu.Unlock()
				if place.After == "dedup" {
					if seen.blocks != clients*104 {
						t.Errorf("%d blocks, %d came to clients", seen.blocks, clients*104)
					}
					return
				}
				if place.After == "plan" && seen.requests != clients {
					t.Errorf("%d requests, %d clients have made one each", seen.requests, clients)
				}
				// One request and an ack for each block.
				if place.Before == "decode" && seen.messages != clients*105 {
					t.Errorf("%d messages, %d were sent", seen.messages, clients*105)
				}
				if seen.questions <= clients {
					t.Errorf("%d questions of where to go, of %d clients that have lost a node", seen.questions, clients)
				}
			})
		})
	}
}
