package fleet

import (
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/ship"
)

// logs is a status with these ends of the trace and the chain-state log.
func logs(trace, state uint32) ship.Status {
	s := status(100, 90)
	s.Trace, s.ChainState = ship.Range{End: trace}, ship.Range{End: state}
	return s
}

// TestStaleness is G6. A node is looked at in each monitoring interval: the
// first finds where its logs end, twelve more without a change make it stale.
func TestStaleness(t *testing.T) {
	type step struct {
		intervals int
		then      *ship.Status // what it reports afterwards; nil is its loss
	}
	says := func(trace, state uint32) *ship.Status { s := logs(trace, state); return &s }
	for name, tt := range map[string]struct {
		first *ship.Status
		steps []step
		stale bool
		warns int
	}{
		"eleven":                {says(101, 101), []step{{12, says(101, 101)}}, false, 0},
		"twelve":                {says(101, 101), []step{{13, says(101, 101)}}, true, 1},
		"for ever, warned once": {says(101, 101), []step{{50, says(101, 101)}}, true, 1},
		"traces alone move":     {says(101, 0), []step{{7, says(102, 0)}, {7, says(103, 0)}, {12, says(104, 0)}}, false, 0},
		"states alone move":     {says(0, 101), []step{{7, says(0, 102)}, {12, says(0, 103)}}, false, 0},
		"the shorter one moves": {says(500, 101), []step{{7, says(500, 102)}, {7, says(500, 103)}, {7, says(500, 104)}}, false, 0},
		"no log at all":         {says(0, 0), []step{{13, says(0, 0)}}, true, 1},
		"set back, and moving":  {says(500, 500), []step{{7, says(101, 101)}, {7, says(102, 102)}, {7, says(103, 103)}}, false, 0},
		"set back, and still":   {says(500, 500), []step{{7, says(101, 101)}, {13, says(101, 101)}}, true, 1},
		"cleared":               {says(101, 101), []step{{20, says(102, 102)}, {1, says(102, 102)}}, false, 1},
		"stale again":           {says(101, 101), []step{{20, says(102, 102)}, {13, says(102, 102)}}, true, 2},
		"not while offline":     {says(101, 101), []step{{11, nil}, {50, says(101, 101)}, {1, says(101, 101)}}, false, 0},
		"stays while offline":   {says(101, 101), []step{{13, nil}, {50, says(101, 101)}}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := silent(t, func(c *config.Listener) { c.Monitoring = 5 * time.Second }, "a")
				after(time.Second) // between two intervals
				w.says(0, *tt.first)
				for _, s := range tt.steps {
					after(time.Duration(s.intervals) * 5 * time.Second)
					if s.then == nil {
						w.loses(0)
					} else {
						w.says(0, *s.then)
					}
				}
				if got := w.up(0).Stale; got != tt.stale {
					t.Errorf("stale: %v, %v was due", got, tt.stale)
				}
				if got := w.log.count("WARN", "has stopped moving"); got != tt.warns {
					t.Errorf("%d warnings, %d were due", got, tt.warns)
				}
				cleared := tt.warns
				if tt.stale {
					cleared--
				}
				if got := w.log.count("INFO", "moves again"); got != cleared {
					t.Errorf("%d lines that it moves again, %d were due", got, cleared)
				}
			})
		})
	}
}

func TestArchivesAreNeverStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := silent(t, func(c *config.Listener) { c.Monitoring, c.Servers[0].Role = time.Second, config.Frozen }, "a")
		w.tells(0, 100, 90)
		after(time.Minute)
		if w.up(0).Stale {
			t.Error("an archive is stale")
		}
	})
}

// TestStalenessTakesANewInterval at once.
func TestStalenessTakesANewInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := silent(t, nil, "a") // with an interval of an hour
		w.tells(0, 100, 90)
		w.Update(w.changed(func(c *config.Listener) { c.Monitoring = time.Second }))
		after(12*time.Second + time.Millisecond)
		if w.up(0).Stale {
			t.Error("stale after twelve seconds")
		}
		after(time.Second)
		if !w.up(0).Stale {
			t.Error("not stale after thirteen seconds")
		}
	})
}
