//go:build nodeos

package nodeos

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// clock makes a node's time run fast, from some time in the past on; see
// clock/clock.c.
type clock struct {
	library string
	begin   time.Time
	speed   int
}

// newClock builds the library.
func newClock(t testing.TB, begin time.Time, speed int) *clock {
	t.Helper()
	c := &clock{library: filepath.Join(t.TempDir(), "clock.so"), begin: begin, speed: speed}
	cmd := exec.Command("cc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-o", c.library, filepath.Join("clock", "clock.c"), "-ldl")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build clock/clock.c, for which a C compiler is needed: %v\n%s", err, out)
	}
	return c
}

// env is what a process has to be started with.
func (c *clock) env() []string {
	return []string{
		"LD_PRELOAD=" + c.library,
		fmt.Sprintf("CLOCK_BEGIN=%d", c.begin.Unix()),
		fmt.Sprintf("CLOCK_SPEED=%d", c.speed),
	}
}
