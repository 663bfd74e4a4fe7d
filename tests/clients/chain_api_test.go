//go:build nodeos

package clients

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"flotilla/tests/nodeos"
)

// Each library reads and pushes through the chain API while the nodes are killed
// in turn: no read fails, and the head does not go back by more than the other
// node is behind.
func TestChainAPI(t *testing.T) {
	if _, err := os.Stat("node_modules"); err != nil {
		t.Fatalf("the client libraries are not installed (%v); run this in the repository, then the test again:\n\tbash tests/clients/install.sh", err)
	}
	f := nodeos.NewFleet(t, 2)
	g := f.StartChainAPI(t, nodeos.BuildGateway(t))
	for _, r := range f.Relays {
		r.Start(t)
	}
	f.SetTable(t)
	for _, r := range f.Relays {
		r.WaitBlock(t, 10)
	}
	for _, library := range []string{"eosjs", "wharfkit"} {
		t.Run(library, func(t *testing.T) {
			g.WaitAPIs(t, f.Relays...)
			use := start(t, library, "http://"+g.API)
			pushed := 0
			for round := range 4 {
				victim := f.Relays[round%2]
				for i := range 6 {
					if i == 2 {
						victim.Kill(t)
					}
					_, trx := f.NewAccount(t)
					got := use(trx)
					switch {
					case got.Push != "":
						pushed++
					case strings.Contains(got.Refused, "Upstream connection lost"):
					default:
						t.Errorf("a push was refused: %s", got.Refused)
					}
				}
				victim.Start(t)
				g.WaitAPIs(t, f.Relays...)
			}
			if pushed < 20 {
				t.Errorf("only %d of 24 pushes were taken", pushed)
			}
		})
	}
}

// turn is one line of chain.mjs.
type turn struct {
	Head          uint32 `json:"head"`
	Push, Refused string
}

// start runs chain.mjs. The function that it returns hands it a transaction and
// waits for its line.
func start(t *testing.T, library, url string) func(trx []byte) turn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	cmd := exec.CommandContext(ctx, "node", "chain.mjs", library, url)
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
	t.Cleanup(func() {
		defer cancel()
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v\n%s", library, err, complaint.String())
		}
	})
	lines := bufio.NewScanner(out)
	return func(trx []byte) turn {
		t.Helper()
		if _, err := in.Write(append(trx, '\n')); err != nil {
			t.Fatal(err)
		}
		var got turn
		if !lines.Scan() {
			t.Fatalf("%s has ended: %v", library, lines.Err())
		}
		if err := json.Unmarshal(lines.Bytes(), &got); err != nil {
			t.Fatalf("%s printed %q: %v", library, lines.Text(), err)
		}
		if got.Head == 0 {
			t.Errorf("%s printed %q", library, lines.Text())
		}
		return got
	}
}
