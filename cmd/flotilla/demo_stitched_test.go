//go:build stitched

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestStitchedDemoLosesNothing(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	var out bytes.Buffer
	o := demoOptions{stitched: true, nodes: 2, duration: 5 * time.Second, killEvery: time.Second, blocksPerSecond: 500, payload: 100}
	if err := runDemo(t.Context(), o, runGateway, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{
		"duplicates        0\n", "gaps              0\n", "handoffs          2\n", "lost 0  repeated 0",
		"archive-1a has the blocks 2 to ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, &out)
		}
	}
	for _, wrong := range []string{"failovers         0\n", "slowest handoff   none"} {
		if strings.Contains(out.String(), wrong) {
			t.Errorf("the output has %q:\n%s", wrong, &out)
		}
	}
}
