package fleet

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/config"
)

// leastLoaded picks the upstream with the fewest links for its weight, as the
// built-in policy does.
func (w *world) leastLoaded() int {
	best := -1
	v := w.View()
	for i := range v.Upstreams {
		u := &v.Upstreams[i]
		if !u.Routable() || u.Full() {
			continue
		}
		if best < 0 || u.Live.Links()*int64(v.Upstreams[best].Server.Weight) < v.Upstreams[best].Live.Links()*int64(u.Server.Weight) {
			best = i
		}
	}
	return best
}

func (w *world) links() (list []int64) {
	for _, u := range w.View().Upstreams {
		list = append(list, u.Live.Links())
	}
	return list
}

// TestReserveSpreadsACrowd of a thousand sessions that come at one moment, as
// the weights say.
func TestReserveSpreadsACrowd(t *testing.T) {
	for name, tt := range map[string]struct {
		weights []uint32
		max     []int
		want    []int64
	}{
		"equal":                {[]uint32{1, 1, 1, 1}, []int{0, 0, 0, 0}, []int64{250, 250, 250, 250}},
		"weights":              {[]uint32{1, 2, 5}, []int{0, 0, 0}, []int64{125, 250, 625}},
		"one is full early":    {[]uint32{1, 2, 5}, []int{0, 0, 100}, []int64{300, 600, 100}},
		"all are full":         {[]uint32{1, 1}, []int{3, 7}, []int64{3, 7}},
		"one with a slot only": {[]uint32{1000000, 1}, []int{1, 0}, []int64{1, 999}},
	} {
		t.Run(name, func(t *testing.T) {
			w := silent(t, func(c *config.Listener) {
				for i, s := range c.Servers {
					s.Weight, s.MaxSessions = tt.weights[i], tt.max[i]
				}
			}, []string{"a", "b", "c", "d"}[:len(tt.weights)]...)
			var got, none atomic.Int64
			var crowd sync.WaitGroup
			start := make(chan struct{})
			for range 1000 {
				crowd.Go(func() {
					<-start
					if w.Reserve(w.leastLoaded) < 0 {
						none.Add(1)
					} else {
						got.Add(1)
					}
				})
			}
			close(start)
			crowd.Wait()
			sum := int64(0)
			for i, n := range w.links() {
				sum += n
				if n != tt.want[i] {
					t.Errorf("%d links to server %d, %d were due", n, i, tt.want[i])
				}
			}
			if got.Load() != sum || none.Load() != 1000-sum {
				t.Errorf("%d got a slot and %d none; %d slots are taken", got.Load(), none.Load(), sum)
			}
		})
	}
}

// TestReserveNeverExceedsMaxSessions, even for a choice that does not look.
func TestReserveNeverExceedsMaxSessions(t *testing.T) {
	const limit, crowd = 7, 50
	w := silent(t, func(c *config.Listener) { c.Servers[0].MaxSessions = limit }, "a")
	live := w.up(0).Live
	var most, lost atomic.Int64
	var all sync.WaitGroup
	for range crowd {
		all.Go(func() {
			for range 300 {
				if w.Reserve(func() int { return 0 }) < 0 {
					lost.Add(1)
					continue
				}
				n := live.Links()
				for seen := most.Load(); n > seen && !most.CompareAndSwap(seen, n); seen = most.Load() {
				}
				w.Release(0)
			}
		})
	}
	all.Wait()
	if most.Load() > limit {
		t.Errorf("%d slots of %d were taken", most.Load(), limit)
	}
	if live.Links() != 0 {
		t.Errorf("%d slots are taken in the end", live.Links())
	}
	for range limit {
		w.Reserve(func() int { return 0 })
	}
	if got := w.Reserve(func() int { return 0 }); got != -1 || !w.up(0).Full() || live.Links() != limit {
		t.Errorf("picked %d of a full server with %d links", got, live.Links())
	}
}

// TestReserveTakesTheLimitInForce, with the slots that are taken already.
func TestReserveTakesTheLimitInForce(t *testing.T) {
	w := silent(t, nil, "a")
	for range 5 {
		w.Reserve(func() int { return 0 })
	}
	limit := func(n int) {
		s := *w.up(0).Server
		s.MaxSessions = n
		w.Update(w.changed(func(c *config.Listener) { c.Servers = []*config.Server{&s} }))
	}
	for _, tt := range []struct{ limit, want int }{{3, -1}, {5, -1}, {6, 0}, {6, -1}, {0, 0}} {
		limit(tt.limit)
		if got := w.Reserve(func() int { return 0 }); got != tt.want {
			t.Errorf("with max_sessions %d and %d links: picked %d", tt.limit, w.up(0).Live.Links(), got)
		}
	}
}

func TestReserveNobody(t *testing.T) {
	w := silent(t, nil, "a")
	if got := w.Reserve(func() int { return -7 }); got != -1 || w.up(0).Live.Links() != 0 {
		t.Errorf("picked %d, %d links", got, w.up(0).Live.Links())
	}
}

// TestReserveWithASlowChoice: many sessions choose at once, and none waits for
// the choice of another that picks a different upstream; those of a crowd see the
// load that they make all the same.
func TestReserveWithASlowChoice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := silent(t, func(c *config.Listener) { c.Servers[1].MaxSessions = 9 }, "a", "b", "c", "d")
		slow := func() int {
			i := w.leastLoaded()
			time.Sleep(10 * time.Millisecond)
			return i
		}
		const crowd = 60
		var all sync.WaitGroup
		for range crowd {
			all.Go(func() { w.Reserve(slow) })
		}
		// One that needs no time does not wait for them.
		began := time.Now()
		if w.Reserve(func() int { return 3 }) != 3 || time.Since(began) != 0 {
			t.Errorf("a quick choice took %v", time.Since(began))
		}
		all.Wait()
		got := w.links()
		rest := []int64{got[0], got[2], got[3]}
		if got[1] != 9 || slices.Max(rest)-slices.Min(rest) > 2 || rest[0]+rest[1]+rest[2] != crowd+1-9 {
			t.Errorf("the links are %v", got)
		}
	})
}

// TestReserveIsParallel: slow choices of different upstreams take no longer than
// one.
func TestReserveIsParallel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := silent(t, nil, "a", "b", "c", "d")
		began := time.Now()
		var all sync.WaitGroup
		for i := range 4 {
			all.Go(func() {
				w.Reserve(func() int {
					time.Sleep(time.Second)
					return i
				})
			})
		}
		all.Wait()
		if took := time.Since(began); took != time.Second {
			t.Errorf("four choices of a second took %v", took)
		}
	})
}
