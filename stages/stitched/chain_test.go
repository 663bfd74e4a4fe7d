package stitched_test

import (
	"slices"

	"flotilla/gateway/ship"
	"flotilla/stages/stagetest"
)

// chain is one chain with forks: a row of versions, each of which takes the
// place of the one before from one block on. Nodes go over to later versions,
// never back, and none gives up a block that is irreversible.
type chain struct {
	// forks are the first blocks in which a version differs from the one
	// before it.
	forks []uint32
}

func (c *chain) latest() int { return len(c.forks) - 1 }

// at is block n of a version.
func (c *chain) at(version int, n uint32) ship.Pos {
	for version > 0 && n < c.forks[version] {
		version--
	}
	return stagetest.Fork(n, byte(version))
}

// differ is the first block in which two versions may differ.
func (c *chain) differ(earlier, later int) uint32 {
	if earlier == later {
		return 1<<32 - 1
	}
	return slices.Min(c.forks[earlier+1 : later+1])
}
