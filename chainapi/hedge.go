package chainapi

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A hedge is a second node that is asked when the first takes longer than nearly
// all of its answers did. Only reads that change nothing are hedged, and only as
// many as hedge_percent allows, so that a slow fleet does not get twice the
// load.

const (
	// hedgeSamples is how many answers of a node are remembered, hedgeLeast from
	// how many on its usual time is known.
	hedgeSamples = 128
	hedgeLeast   = 20
	// hedgeFloor keeps noise from being taken for slowness.
	hedgeFloor = 2 * time.Millisecond
	// hedgeBurst is how many hedges may be saved up.
	hedgeBurst = 10
)

// latency remembers how long the last answers of a node took.
type latency struct {
	mu   sync.Mutex
	took [hedgeSamples]time.Duration
	n    int
	p95  time.Duration
}

func (l *latency) add(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took[l.n%hedgeSamples] = d
	l.n++
	if l.n >= hedgeLeast && (l.n%16 == 0 || l.n == hedgeLeast) {
		sorted := slices.Clone(l.took[:min(l.n, hedgeSamples)])
		slices.Sort(sorted)
		l.p95 = sorted[len(sorted)*95/100]
	}
}

// usual is the time within which 95 of 100 answers came; false while too few are
// known.
func (l *latency) usual() (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return max(l.p95, hedgeFloor), l.n >= hedgeLeast
}

// budget is how many hedges may be made: each request adds to it.
type budget struct {
	mu sync.Mutex
	// saved is in hundredths of a hedge.
	saved int
}

func (b *budget) earn(percent int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.saved = min(b.saved+percent, hedgeBurst*100)
}

func (b *budget) spend() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.saved < 100 {
		return false
	}
	b.saved -= 100
	return true
}

// hedges reports whether a second node may be asked beside a, and after how
// long. rest are the candidates that are left; most bounds the attempts.
func (x *exchange) hedges(a *API, rest []*API, most int) (time.Duration, bool) {
	percent := x.s.api.HedgePercent
	if percent == 0 || x.class != Info && (x.class != Block || x.region == unhinted) {
		return 0, false
	}
	x.p.hedging.earn(percent)
	if len(rest) == 0 || x.tries+2 > most {
		return 0, false
	}
	return a.link.heads.usual()
}

// runner is an attempt that may have another one beside it.
type runner struct {
	a    *API
	got  attempt
	fail *failure
}

// useful reports whether the answer can be taken without a look at the other.
func (r *runner) useful() bool { return r.fail == nil && r.got.status/100 == 2 }

// race asks a, and another candidate beside it when a takes longer than wait. It
// returns the first answer with a 2xx, else that of the first to answer at all;
// the request has a slot on the one returned only.
func (x *exchange) race(a *API, list *[]*API, wait time.Duration) (*API, attempt, *failure) {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	results := make(chan runner, 2)
	run := func(a *API) {
		x.tries++
		running.Go(func() {
			got, fail := x.attempt(a, ctx)
			results <- runner{a, got, fail}
		})
	}
	run(a)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	var first runner
	select {
	case first = <-results:
		return first.a, first.got, first.fail
	case <-timer.C:
	}
	second := x.beside(list)
	if second == nil {
		first = <-results
		return first.a, first.got, first.fail
	}
	run(second)
	first = <-results
	winner := first
	var loser runner
	if first.useful() {
		cancel()
		loser = <-results
	} else if loser = <-results; loser.useful() || first.fail != nil {
		winner, loser = loser, first
	}
	x.settle(winner, loser, second)
	return winner.a, winner.got, winner.fail
}

// beside is a candidate for a second attempt, with a slot; nil when there is
// none, or no budget for one.
func (x *exchange) beside(list *[]*API) *API {
	for i, a := range *list {
		if !a.link.slots.full() && x.p.hedging.spend() {
			if !a.link.slots.take() {
				return nil
			}
			*list = slices.Delete(slices.Clone(*list), i, i+1)
			return a
		}
	}
	return nil
}

// settle ends the attempt that lost, and leaves the request with the slot of the
// one that won.
func (x *exchange) settle(winner, loser runner, second *API) {
	if loser.fail == nil {
		loser.got.done()
	}
	loser.a.link.slots.release()
	x.slot = winner.a
	if winner.a == second && winner.fail == nil {
		x.p.Stats.Hedges.Inc(HedgeWon)
	} else {
		x.p.Stats.Hedges.Inc(HedgeLost)
	}
}
