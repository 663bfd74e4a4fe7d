package scene

import (
	"flag"
	"math/rand/v2"
	"testing"
)

// What a test of random schedules is told on the command line.
var (
	schedules = flag.Int("schedules", 0, "how many random schedules of faults to play; 0 is as many as the test finds right")
	seed      = flag.Uint64("seed", 0, "play only the schedule of this seed")
)

// Schedules plays random schedules of faults, each with a seed of its own, until
// one fails: usually so many, or as many as -schedules says, or with -seed just
// that one.
func Schedules(t *testing.T, usually int, play func(t *testing.T, seed uint64)) {
	t.Helper()
	if *seed != 0 {
		play(t, *seed)
		return
	}
	if *schedules > 0 {
		usually = *schedules
	}
	base := rand.Uint64()
	for i := range usually {
		play(t, base+uint64(i))
		if t.Failed() {
			return
		}
	}
}
