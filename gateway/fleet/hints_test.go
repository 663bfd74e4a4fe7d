package fleet

import (
	"testing"

	"flotilla/gateway/ship"
)

// sendsABI has upstream i send an ABI with that fingerprint.
func (w *world) sendsABI(i int, fingerprint string) {
	abi := parsed(w, fingerprint)
	w.do(func(o *owner) { o.abi(i, abi) })
}

// parsed is an ABI of today with that fingerprint.
func parsed(w *world, fingerprint string) *ship.ABI {
	abi, err := ship.ParseABI([]byte(springABI))
	if err != nil {
		w.t.Fatal(err)
	}
	abi.Fingerprint, abi.Text = fingerprint, []byte(fingerprint)
	return abi
}

func fingerprintOf(text string) string { return ship.Fingerprint([]byte(text)) }

const (
	saysAboveLIB   = `msg="frozen upstream serves blocks above the fleet LIB"`
	saysMoved      = "an archive has moved"
	saysMismatch   = "an archive reports another range than the configuration declares"
	saysFrozen     = "a live upstream looks like an archive"
	saysOtherABI   = "the ABI of an upstream is not the one that clients get"
	saysPoolABI    = "the ABI of an upstream is not the one that most of the pool have"
	saysABIChosen  = "the ABI that clients get is chosen"
	saysABIChanged = "clients get another ABI from now on"
)

// TestHints is M7 and M19: what is said, and how often. The fleet has an archive
// y that declares [1, 51), an archive z that declares nothing, and a live node.
func TestHints(t *testing.T) {
	const y, z, l = 0, 1, 2
	still := func(w *world) {
		s := status(100, 100)
		w.says(l, s)
		w.stale(l, true)
	}
	for name, tt := range map[string]struct {
		play func(w *world)
		want map[string]int // lines with this text
	}{
		"nothing wrong": {func(w *world) {
			w.says(y, archived(1, 51))
			w.says(z, archived(51, 101))
			w.tells(l, 150, 130)
			w.tells(l, 151, 131)
			w.loses(y)
			w.says(y, archived(1, 51))
		}, nil},

		"an archive at LIB":    {func(w *world) { w.tells(l, 150, 130); w.says(z, archived(1, 131)) }, nil},
		"an archive above LIB": {func(w *world) { w.tells(l, 150, 130); w.says(z, archived(1, 132)) }, map[string]int{saysAboveLIB: 1}},
		"above LIB, said once": {func(w *world) {
			w.says(z, archived(1, 140))
			w.tells(l, 150, 130)
			w.tells(l, 151, 131)
			w.loses(z)
			w.says(z, archived(1, 140))
		}, map[string]int{saysAboveLIB: 1}},
		"above LIB in two archives": {func(w *world) {
			w.tells(l, 150, 40)
			w.says(y, archived(1, 51))
			w.says(z, archived(1, 51))
		}, map[string]int{saysAboveLIB + " server=y": 1, saysAboveLIB + " server=z": 1}},
		"a finality log above LIB": {func(w *world) {
			w.tells(l, 150, 130)
			s := archived(1, 101)
			s.Finality.End = 140
			w.says(z, s)
		}, map[string]int{saysAboveLIB: 1}},
		"no live node to compare with": {func(w *world) {
			w.tells(l, 150, 130)
			w.loses(l)
			w.says(z, archived(1, 140))
		}, nil},

		"an archive that moves": {func(w *world) {
			w.says(z, archived(1, 101))
			w.says(z, archived(1, 102))
			w.says(z, archived(1, 103))
		}, map[string]int{saysMoved: 1}},
		"an archive that shrinks": {func(w *world) { w.says(z, archived(1, 101)); w.says(z, archived(1, 91)) }, nil},
		"a live node that is declared an archive later": {func(w *world) {
			w.tells(l, 150, 130)
			w.tells(l, 151, 131)
			w.serve(declares("y", 1, 51), declares("z", 0, 0), declares("l", 0, 0))
			w.tells(l, 151, 151)
		}, nil},

		"another range": {func(w *world) { w.says(y, archived(1, 41)) }, map[string]int{saysMismatch: 1, saysMismatch + `; what it reports counts" server=y declared=[1,51) trace=[1,41)`: 1}},
		"another range, said once per change": {func(w *world) {
			w.says(y, archived(1, 41))
			w.loses(y)
			w.says(y, archived(1, 41))
			w.says(y, archived(1, 31))
			w.says(y, archived(1, 51))
			w.says(y, archived(1, 31))
		}, map[string]int{saysMismatch: 3, saysMoved: 1}},
		"another range by a reload": {func(w *world) {
			w.says(y, archived(1, 51))
			w.serve(declares("y", 1, 61), declares("z", 0, 0), server("l"))
		}, map[string]int{saysMismatch: 1}},

		"a live node that does not move":           {still, map[string]int{saysFrozen: 1}},
		"one that does not move, said once":        {func(w *world) { still(w); w.stale(l, false); w.stale(l, true) }, map[string]int{saysFrozen: 1}},
		"one that moves":                           {func(w *world) { still(w); w.stale(l, false); w.tells(l, 101, 101) }, map[string]int{saysFrozen: 1}},
		"one that is stuck with reversible blocks": {func(w *world) { w.tells(l, 100, 90); w.stale(l, true) }, nil},
		"one whose log is behind its head": {func(w *world) {
			s := status(100, 100)
			s.Trace.End, s.ChainState.End = 90, 90
			w.says(l, s)
			w.stale(l, true)
		}, nil},

		"another ABI": {func(w *world) {
			w.tells(l, 150, 130)
			w.sendsABI(l, "one")
			w.says(y, archived(1, 51))
			w.sendsABI(y, "two")
			w.sendsABI(y, "three")
			w.sendsABI(z, "two")
		}, map[string]int{saysABIChosen: 1, saysOtherABI + `" server=y`: 2, saysOtherABI + `" server=z`: 1, "fingerprint=two": 2}},
		"the same ABI": {func(w *world) {
			w.says(y, archived(1, 51))
			w.sendsABI(y, "one")
			w.tells(l, 150, 130)
			w.sendsABI(l, "one")
		}, map[string]int{saysABIChosen + `" fingerprint=one from=y provisional=true`: 1}},
		"the ABI of an archive gives way": {func(w *world) {
			w.says(y, archived(1, 51))
			w.sendsABI(y, "old")
			w.tells(l, 150, 130)
			w.sendsABI(l, "new")
		}, map[string]int{saysABIChosen: 1, saysABIChanged + `" fingerprint=new from=l provisional=false`: 1, saysOtherABI + `" server=y`: 1, saysOtherABI + `" server=l`: 0}},
	} {
		t.Run(name, func(t *testing.T) {
			w := silentSplit(t, declares("y", 1, 51), declares("z", 0, 0), server("l"))
			tt.play(w)
			w.said(tt.want, saysAboveLIB, saysMoved, saysMismatch, saysFrozen, saysOtherABI, saysPoolABI, saysABIChanged)
		})
	}
}

// said compares how often lines with these texts were logged; the others were
// not to be logged at all, unless want has a longer text with one in it.
func (w *world) said(want map[string]int, others ...string) {
	w.t.Helper()
	expected := map[string]int{}
	for text, n := range want {
		expected[text] = n
		for _, other := range others {
			if len(text) > len(other) && text[:len(other)] == other {
				expected[other] = -1
			}
		}
	}
	for _, other := range others {
		if _, named := expected[other]; !named {
			expected[other] = 0
		}
	}
	for text, n := range expected {
		if got := w.log.count(text); n >= 0 && got != n {
			w.t.Errorf("%q was logged %d times, %d were due; the log:\n%s", text, got, n, w.log.text.String())
		}
	}
}

// TestHintsOfAPool: each ABI that most nodes do not have, once.
func TestHintsOfAPool(t *testing.T) {
	for name, tt := range map[string]struct {
		abis []string // of a, b, c, in this order
		want map[string]int
	}{
		"the same":                  {[]string{"x", "x", "x"}, nil},
		"one differs":               {[]string{"x", "x", "y"}, map[string]int{saysPoolABI + `" server=c fingerprint=y most_have=x`: 1}},
		"one of two, then of three": {[]string{"x", "y", "y"}, map[string]int{"fingerprint=y most_have=x": 1, "fingerprint=x most_have=y": 1}},
		"two with the same one":     {[]string{"x", "x", "x", "y", "y"}, map[string]int{"fingerprint=y": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			w := silent(t, nil, "a", "b", "c", "d", "e")
			for i, abi := range tt.abis {
				w.sendsABI(i, abi)
				w.tells(i, 100, 90)
			}
			lines := 0
			for text, n := range tt.want {
				lines += n
				if got := w.log.count(saysPoolABI, text); got != n {
					t.Errorf("%q was logged %d times, %d were due", text, got, n)
				}
			}
			if got := w.log.count(saysPoolABI); got != lines {
				t.Errorf("%d lines, %d were due", got, lines)
			}
			if got := w.log.count(saysOtherABI); got != 0 {
				t.Error("a pool has no ABI of its own")
			}
		})
	}
}
