package simulator

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"flotilla/gateway/ship"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is one node and one client on a network in memory, inside a bubble.
type scene struct {
	t      *testing.T
	net    *Network
	chain  *Chain
	node   *Node
	client *Client
	seen   int
}

// play runs f in a bubble with a chain that has head 100 and LIB 80 unless c
// says otherwise.
func play(t *testing.T, c ChainOptions, o Options, f func(s *scene)) {
	t.Helper()
	if c.Head == 0 {
		c.Head, c.LIBLag = 100, 20
	}
	c.Sizes = Sizes{Block: 40, Traces: 300, Deltas: 3, Finality: 9}
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, net: NewNetwork(), chain: NewChain(c)}
		s.node = s.start(o)
		s.client = s.dial()
		f(s)
		synctest.Wait()
		if err := s.client.Report().Err(); err != nil && !t.Failed() {
			t.Errorf("at the end: %v", err)
		}
	})
}

func (s *scene) start(o Options) *Node {
	s.t.Helper()
	o.Listen = s.net.Listen
	o.Address = "node:0"
	n, err := Start(s.chain, o)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(n.Close)
	return n
}

func (s *scene) dial() *Client {
	s.t.Helper()
	c, err := s.tryDial(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	return c
}

func (s *scene) tryDial(ctx context.Context) (*Client, error) {
	c, err := Dial(ctx, s.node.URL(), ClientOptions{Dial: s.net.DialContext, Keep: true, CheckPayload: true})
	if err == nil {
		s.t.Cleanup(c.Close)
	}
	return c, err
}

// redial replaces the client.
func (s *scene) redial() {
	s.t.Helper()
	s.client.Close()
	synctest.Wait() // the node may count its links
	s.client, s.seen = s.dial(), 0
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// everything is a request for [start, end) with all there is.
func everything(start, end, credit uint32) ship.BlocksRequest {
	return ship.BlocksRequest{V1: true, Start: start, End: end, MaxInFlight: credit,
		FetchBlock: true, FetchTraces: true, FetchDeltas: true, FetchFinality: true}
}

func (s *scene) ask(start, end, credit uint32) {
	s.t.Helper()
	s.must(s.client.Ask(everything(start, end, credit)))
}

// next are the results since the last call: numbers, and "-" for one without a
// block.
func (s *scene) next() []ship.Block {
	synctest.Wait()
	all := s.client.Results()
	fresh := all[s.seen:]
	s.seen = len(all)
	return fresh
}

func text(results []ship.Block) string {
	var out []string
	for _, r := range results {
		if r.HasThis {
			out = append(out, fmt.Sprint(r.This.Num))
		} else {
			out = append(out, "-")
		}
	}
	return strings.Join(out, " ")
}

func expand(want string) string {
	var out []string
	for _, w := range strings.Fields(want) {
		var a, b int
		if _, err := fmt.Sscanf(w, "%d..%d", &a, &b); err != nil {
			out = append(out, w)
			continue
		}
		for ; a <= b; a++ {
			out = append(out, fmt.Sprint(a))
		}
	}
	return strings.Join(out, " ")
}

// wants checks all results since the last check. "5..9" stands for 5 to 9.
func (s *scene) wants(want string) {
	s.t.Helper()
	if got, want := text(s.next()), expand(want); got != want {
		s.t.Fatalf("got blocks [%s], want [%s]", got, want)
	}
}

// ended waits for the end of the connection and checks its code, 0 for none.
func (s *scene) ended(code int) {
	s.t.Helper()
	<-s.client.Done()
	if e, _ := s.client.End(); e.Code != code {
		s.t.Fatalf("the connection ended with code %d (%v), want %d", e.Code, e, code)
	}
}

// allow lets the client take results without these parts for right.
func (s *scene) allow(may ship.Parts) {
	s.client.update(func() { s.client.judge.mayLack = may })
}

// all are all parts.
var all = ship.Parts{Block: true, Traces: true, Deltas: true, Finality: true}

// report checks that exactly the counters that pick returns are as given, and
// silences the check at the end of the scene.
func (s *scene) report(want Report) {
	s.t.Helper()
	synctest.Wait()
	got := s.client.Report()
	got.Blocks, got.Last, got.Head, got.LIB, got.LongestSilence = 0, ship.Pos{}, ship.Pos{}, ship.Pos{}, 0
	if got != want {
		s.t.Fatalf("the client counts %+v, want %+v", got, want)
	}
	s.client.Close()
	s.client.update(func() { s.client.judge.Report = Report{} })
}
