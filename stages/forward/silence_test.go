package forward_test

import (
	"math"
	"testing"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/pipeline"
	"flotilla/stages/forward"
	"flotilla/stages/stagetest"
)

// TestOwed covers F2 condition by condition.
func TestOwed(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(x *pipeline.Exchange)
		want   bool
	}{
		{"its block is there", func(*pipeline.Exchange) {}, true},
		{"no request", func(x *pipeline.Exchange) { x.Link.Requested = false }, false},
		{"no credit", func(x *pipeline.Exchange) { x.Credit = 0 }, false},
		{"last block of the request", func(x *pipeline.Exchange) { x.Link.End = 51 }, true},
		{"satisfied", func(x *pipeline.Exchange) { x.Link.End = 50 }, false},
		{"at the fleet's head", func(x *pipeline.Exchange) { x.Tip.Head.Num = 50 }, true},
		{"above the fleet's head", func(x *pipeline.Exchange) { x.Tip.Head.Num = 49 }, false},
		{"above the fleet's head, but the node has it", func(x *pipeline.Exchange) { x.Tip.Head.Num, x.Link.Head = 49, 50 }, true},
		{"above both heads", func(x *pipeline.Exchange) { x.Tip.Head.Num, x.Link.Head = 49, 49 }, false},
		{"irreversible, at the fleet's LIB", func(x *pipeline.Exchange) { x.Link.Irreversible, x.Tip.LIB.Num = true, 50 }, true},
		{"irreversible, above the fleet's LIB", func(x *pipeline.Exchange) { x.Link.Irreversible, x.Tip.LIB.Num = true, 49 }, false},
		{"irreversible, only the node's head is above", func(x *pipeline.Exchange) {
			x.Link.Irreversible, x.Tip.LIB.Num, x.Link.Head = true, 49, 60
		}, false},
		{"irreversible, the node's LIB is there", func(x *pipeline.Exchange) {
			x.Link.Irreversible, x.Tip.LIB.Num, x.Link.LIB = true, 49, 50
		}, true},
		{"uncertain: the upper bound counts", func(x *pipeline.Exchange) {
			x.Link.Exact, x.Link.Cursor, x.Tip.Head.Num = false, 40, 49
		}, false},
		{"uncertain, the upper bound is there", func(x *pipeline.Exchange) {
			x.Link.Exact, x.Link.Cursor, x.Tip.Head.Num = false, 40, 50
		}, true},
		{"uncertain and satisfied", func(x *pipeline.Exchange) {
			x.Link.Exact, x.Link.Cursor, x.Link.End = false, 40, 50
		}, false},
		{"rewound: the link's own cursor counts", func(x *pipeline.Exchange) {
			x.Link.Cursor, x.Cursor, x.Tip.Head.Num = 45, 50, 47
		}, true},
	} {
		x := linked()
		c.change(x)
		if got := forward.Owed(x); got != c.want {
			t.Errorf("%s: owed is %v, want %v", c.name, got, c.want)
		}
	}
}

// Times of the silence tests count in seconds from here.
var start = stagetest.Exchange().Now

func at(seconds float64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return start.Add(time.Duration(math.Round(seconds * float64(time.Second))))
}

// times are the fields of a Clock in seconds; 0 is never.
type times struct {
	byte, data, progress, ping, lost float64
	probed                           bool
}

func (c times) of() *forward.Clock {
	return &forward.Clock{Byte: at(c.byte), Data: at(c.data), Progress: at(c.progress), Ping: at(c.ping), Lost: at(c.lost), Probed: c.probed}
}

// nobody and somebody are whether another upstream could serve the block.
func nobody() bool   { return false }
func somebody() bool { return true }

// ε is the shortest time.
const ε = 1e-9

// TestSilence covers F3 to F7 and 5.2: each threshold just before and at it.
// Liveness is 4 s, the stall time 60 s, idle is off.
func TestSilence(t *testing.T) {
	for _, c := range []struct {
		name      string
		now       float64
		clock     times
		owed      bool
		elsewhere func() bool
		want      forward.Verdict
	}{
		// Liveness, F3: owed or not.
		{"quiet, before half the time", 102 - ε, times{byte: 100}, false, nobody, forward.Verdict{Again: at(102)}},
		{"quiet for half the time", 102, times{byte: 100}, false, nobody, forward.Verdict{Ping: true}},
		{"quiet for longer", 103, times{byte: 100}, false, nobody, forward.Verdict{Ping: true}},
		{"pinged, before the time", 104 - ε, times{byte: 100, ping: 102}, false, nobody, forward.Verdict{Again: at(104)}},
		{"pinged, at the time", 104, times{byte: 100, ping: 102}, false, nobody, forward.Verdict{End: fleet.EndSilent}},
		{"pinged late, before half the time since", 105 - ε, times{byte: 100, ping: 103}, false, nobody, forward.Verdict{Again: at(105)}},
		{"pinged late, half the time since", 105, times{byte: 100, ping: 103}, false, nobody, forward.Verdict{End: fleet.EndSilent}},
		{"bytes trickle after the ping", 105, times{byte: 103, ping: 102}, false, nobody, forward.Verdict{Again: at(107)}},
		{"bytes trickled, then stopped", 107, times{byte: 103, ping: 102}, false, nobody, forward.Verdict{End: fleet.EndSilent}},

		// Probe, F4.
		{"probed, before a second", 111 - ε, times{byte: 109, ping: 110, lost: 110, probed: true}, false, nobody, forward.Verdict{Again: at(111)}},
		{"probed, a second after", 111, times{byte: 109, ping: 110, lost: 110, probed: true}, false, nobody, forward.Verdict{End: fleet.EndSilent}},
		{"probed, a byte since", 111.5 - ε, times{byte: 110.5, ping: 110, lost: 110, probed: true}, false, nobody, forward.Verdict{Again: at(111.5)}},
		{"probed, a second after the last byte", 111.5, times{byte: 110.5, ping: 110, lost: 110, probed: true}, false, nobody, forward.Verdict{End: fleet.EndSilent}},
		{"answered the probe", 112, times{byte: 111, lost: 110}, false, nobody, forward.Verdict{Again: at(113)}},

		// Stall, F7.
		{"owed, before the stall time", 160 - ε, times{byte: 159, data: 100, progress: 90}, true, somebody, forward.Verdict{Again: at(160)}},
		{"owed, at the stall time, another can", 160, times{byte: 159, data: 100, progress: 90}, true, somebody, forward.Verdict{End: fleet.EndStall, Again: at(161)}},
		{"the stall time counts from progress too", 160 - ε, times{byte: 159, data: 90, progress: 100}, true, somebody, forward.Verdict{Again: at(160)}},
		{"not owed at the stall time", 160, times{byte: 159, data: 100}, false, somebody, forward.Verdict{Again: at(161)}},
		{"stalled, nobody else: kept, and asked again in a second", 160, times{byte: 159.5, data: 100}, true, nobody, forward.Verdict{Keep: true, Again: at(161)}},
		{"stalled, nobody else, before three times", 280 - ε, times{byte: 279, data: 100}, true, nobody, forward.Verdict{Keep: true, Again: at(280)}},
		{"stalled, nobody else, at three times", 280, times{byte: 279, data: 100}, true, nobody, forward.Verdict{End: fleet.EndStall, Again: at(281)}},

		// Offline and silent, F6.
		{"offline and owed, before five seconds", 115 - ε, times{byte: 114, data: 105, lost: 110}, true, nobody, forward.Verdict{Again: at(115)}},
		{"offline and owed, five seconds after both", 115, times{byte: 114, data: 105, lost: 110}, true, nobody, forward.Verdict{End: fleet.EndOffline, Again: at(116)}},
		{"offline, data came since", 117 - ε, times{byte: 116, data: 112, lost: 110}, true, nobody, forward.Verdict{Again: at(117)}},
		{"offline, five seconds after the data", 117, times{byte: 116, data: 112, lost: 110}, true, nobody, forward.Verdict{End: fleet.EndOffline, Again: at(118)}},
		{"offline and owes nothing", 130, times{byte: 129, data: 105, lost: 110}, false, nobody, forward.Verdict{Again: at(131)}},
		{"kept in a stall, then offline", 160, times{byte: 159, data: 100, lost: 150}, true, nobody, forward.Verdict{Keep: true, End: fleet.EndOffline, Again: at(161)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := &config.Listener{LivenessTimeout: 4 * time.Second, StallTimeout: 60 * time.Second}
			got := forward.Silence(cfg, at(c.now), c.clock.of(), c.owed, c.elsewhere)
			if got != c.want {
				t.Errorf("the verdict is %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// TestIdleSilence covers the idle end: only while owed, and before the stall
// rule (F6).
func TestIdleSilence(t *testing.T) {
	cfg := &config.Listener{IdleTimeout: 10 * time.Second, StallTimeout: 10 * time.Second}
	for _, c := range []struct {
		name string
		now  float64
		owed bool
		want fleet.End
	}{
		{"before", 110 - ε, true, ""},
		{"at the time", 110, true, fleet.EndIdle},
		{"not owed", 150, false, ""},
	} {
		if got := forward.Silence(cfg, at(c.now), times{byte: 100, data: 100}.of(), c.owed, somebody); got.End != c.want {
			t.Errorf("%s: end %q, want %q", c.name, got.End, c.want)
		}
	}
}

// TestSilenceOff: a timeout of 0 turns its rule off.
func TestSilenceOff(t *testing.T) {
	got := forward.Silence(&config.Listener{}, at(1e6), times{byte: 1, data: 1, progress: 1}.of(), true, somebody)
	if got != (forward.Verdict{}) {
		t.Errorf("the verdict is %+v", got)
	}
}

// Whether another upstream could serve the block is asked only when the answer
// matters: it goes through the whole fleet.
func TestElsewhereIsAskedWhenItMatters(t *testing.T) {
	cfg := &config.Listener{LivenessTimeout: 4 * time.Second, StallTimeout: 60 * time.Second}
	for _, c := range []struct {
		name string
		now  float64
		owed bool
		want bool
	}{
		{"before the stall time", 159, true, false},
		{"at the stall time", 160, true, true},
		{"not owed", 160, false, false},
		{"at three times", 280, true, false},
	} {
		asked := false
		forward.Silence(cfg, at(c.now), times{byte: c.now, data: 100}.of(), c.owed, func() bool { asked = true; return false })
		if asked != c.want {
			t.Errorf("%s: asked is %v, want %v", c.name, asked, c.want)
		}
	}
}

// A session that looks again when it is told to meets every threshold in time:
// the node answers pings and sends nothing else.
func TestAgainMissesNothing(t *testing.T) {
	cfg := &config.Listener{LivenessTimeout: 4 * time.Second, StallTimeout: 60 * time.Second}
	clock := times{byte: 100, data: 100, progress: 100}.of()
	now, pings := at(100), 0
	for range 1000 {
		v := forward.Silence(cfg, now, clock, true, nobody)
		if v.End != "" {
			if v.End != fleet.EndStall || now.Sub(at(100)) != 180*time.Second {
				t.Errorf("the link ends as %s after %v, want a stall after three minutes", v.End, now.Sub(at(100)))
			}
			if pings < 60 {
				t.Errorf("%d pings in three minutes", pings)
			}
			return
		}
		if v.Ping {
			// The answer comes at once.
			pings++
			clock.Byte = now
			continue
		}
		if !v.Again.After(now) {
			t.Fatalf("at %v nothing is to be done and the next look is at %v", now.Sub(start), v.Again.Sub(start))
		}
		now = v.Again
	}
	t.Error("the link never ends")
}
