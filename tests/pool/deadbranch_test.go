package pool

import (
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/simulator"
	"flotilla/tests/scene"
)

// TestNodeOnADeadBranchIsNotPassedOn lets the only node that is left be one
// that stands on a branch which is irreversibly dead for the client: it is
// held, rather than sent blocks that contradict what it was told is final.
func TestNodeOnADeadBranchIsNotPassedOn(t *testing.T) {
	for name, c := range map[string]struct{ blocks, credit uint32 }{
		// Its next block is the last before the branch, or the first of it: a block
		// that the client was told is irreversible.
		"before it":        {20, 92},
		"at its beginning": {20, 93},
		// The client's next block is one that the dead branch has too.
		"in the middle of it": {20, 96},
		// Its next block is above the dead branch, whose fork is at LIB.
		"beyond it": {7, 10_000},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, simulator.ChainOptions{Head: 100, LIBLag: 10}, func(t *testing.T, w *world) {
				a := w.Node(simulator.Options{}, priority(0))
				b := w.Node(simulator.Options{}, priority(1))
				w.Config.HoldWait = 5 * time.Minute
				defer w.Start()()
				b.Pin(true)
				if err := w.Chain.Fork(95, 101); err != nil {
					t.Fatal(err)
				}
				w.Chain.Advance(c.blocks - 1)
				client := w.Dial(simulator.ClientOptions{})
				w.Ask(client, scene.Everything(2, 1000, c.credit))
				synctest.Wait()
				before := client.Report().Last
				a.Kill()
				if err := client.Ack(1000); err != nil {
					t.Fatal(err)
				}
				time.Sleep(40 * time.Second)
				if now := client.Report().Last; now != before {
					t.Errorf("the client got block %d from the dead branch after %d", now.Num, before.Num)
				}
				if err := a.Restart(); err != nil {
					t.Fatal(err)
				}
				w.Chain.Advance(10)
				w.Reaches(client, w.Chain.Head().Num)
				w.Clean(client)
			})
		})
	}
}
