package main

import (
	"os"
	"runtime/debug"
)

// collectPercent is how much the heap may grow between two collections. The
// block path makes no garbage, so collections are rare, and with thousands of
// idle sessions the default of 100 only keeps twice the memory that they need.
const collectPercent = 40

// collectSooner sets the collector up for a server, unless the environment does.
func collectSooner() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectPercent)
	}
}
