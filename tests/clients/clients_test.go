//go:build nodeos

package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"flotilla/tests/nodeos"
)

// block is one line of stream.mjs.
type block struct {
	Num          uint32 `json:"num"`
	ID           string `json:"id"`
	Size         int    `json:"size"`
	Transactions int    `json:"transactions"`
	Actions      int    `json:"actions"`
	Rows         int    `json:"rows"`
	SHA256       string `json:"sha256"`
}

// Each library reads and decodes a stream whose relay is killed on the way, and
// gets what it gets from a node alone.
func TestLibraries(t *testing.T) {
	if _, err := os.Stat("node_modules"); err != nil {
		t.Fatalf("the client libraries are not installed (%v); run this in the repository, then the test again:\n\tbash tests/clients/install.sh", err)
	}
	f := nodeos.NewFleet(t, 2)
	g := f.StartGateway(t, nodeos.BuildGateway(t), "config.json")
	for _, r := range f.Relays {
		r.Start(t)
	}
	f.StartWorkload(t)

	for _, library := range []string{"eosjs", "wharfkit", "abieos"} {
		t.Run(library, func(t *testing.T) {
			g.WaitUp(t, f.Relays...)
			info, err := f.Producer.Info()
			if err != nil {
				t.Fatal(err)
			}
			// Some blocks that are there, then some as they are made. Not the first two:
			// a relay that was replayed has others than the producer.
			first := max(3, int(info.Head)-20)
			atHead := int(info.Head) - first + 4
			failovers := g.Failovers(t)

			var until uint32 // 0 while it is not known that the session has lost its relay
			got, repeats := stream(t, library, g.SHiP, first, func(n int, last uint32) bool {
				switch {
				case n < atHead:
				case n == atHead:
					victim := g.Serving(t, f.Relays)
					victim.Kill(t)
					t.Cleanup(func() { victim.Start(t) })
				case until == 0 && g.Failovers(t) > failovers:
					info, err := f.Producer.Info()
					if err != nil {
						t.Fatal(err)
					}
					until = info.Head + 2 // beyond what may be on its way already
				}
				return until == 0 || last < until
			})
			f.CheckRepeats(t, repeats)

			want, _ := stream(t, library, f.Producer.SHiP, first, func(n int, _ uint32) bool { return n < len(got) })
			var sum block
			for i := range got {
				if got[i] != want[i] {
					t.Fatalf("through the gateway: %+v\nfrom a node alone:   %+v", got[i], want[i])
				}
				sum.Transactions += got[i].Transactions
				sum.Actions += got[i].Actions
				sum.Rows += got[i].Rows
			}
			if sum.Transactions == 0 || sum.Actions <= len(got) || sum.Rows <= len(got) {
				t.Errorf("the library decoded only %d transactions, %d actions and %d rows in %d blocks", sum.Transactions, sum.Actions, sum.Rows, len(got))
			}
		})
	}
}

// stream runs stream.mjs until more, which is called after each block with how
// many there are and the number of the last one, says that it is enough. Of a
// block that came twice in a row, blocks has the second copy.
func stream(t *testing.T, library, addr string, start int, more func(n int, last uint32) bool) (blocks []block, repeats []uint32) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "stream.mjs", library, "ws://"+addr, strconv.Itoa(start))
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { // more may have ended the test; the program must not outlive it
		cancel()
		_ = cmd.Wait()
	}()

	enough := false
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		var b block
		if err := json.Unmarshal(lines.Bytes(), &b); err != nil {
			t.Fatalf("%s printed %q: %v", library, lines.Text(), err)
		}
		switch n := len(blocks); {
		case n > 0 && blocks[n-1].Num == b.Num:
			blocks[n-1] = b
			repeats = append(repeats, b.Num)
		case enough: // printed before the program knew
		default:
			blocks = append(blocks, b)
			if enough = !more(n+1, b.Num); enough {
				_ = in.Close()
			}
		}
	}
	if err := errors.Join(lines.Err(), cmd.Wait()); err != nil {
		t.Fatalf("%s after %d blocks of %s: %v\n%s", library, len(blocks), addr, err, complaint.String())
	}
	if !enough {
		t.Fatalf("%s ended after %d blocks of %s, before it was told to", library, len(blocks), addr)
	}
	return blocks, repeats
}
