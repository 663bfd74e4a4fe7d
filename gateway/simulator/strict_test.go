package simulator

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/ship"
)

// TestStrictClient has an archive do what is right for an archive, and clients
// that expect something else.
func TestStrictClient(t *testing.T) {
	for _, tt := range []struct {
		name   string
		opt    Options
		client ClientOptions
		want   Report
		found  string // in the error
	}{
		{"what is right", Options{}, ClientOptions{First: 10}, Report{IDless: 1}, ""},
		{"ids too early", Options{}, ClientOptions{First: 11}, Report{IDless: 1, Early: 1}, "below the first block: 1"},
		{"ids too late", Options{}, ClientOptions{First: 9}, Report{IDless: 1, Nameless: 1}, "without ids: 1"},
		{"parts missing", Options{BlockBegin: 11, StateBegin: NoLog}, ClientOptions{},
			Report{IDless: 1, Lacking: Lacking{Block: 1, Deltas: 3}}, "without the block: 1, results without deltas: 3"},
		{"parts that may be missing", Options{BlockBegin: 11, StateBegin: NoLog}, ClientOptions{MayLack: ship.Parts{Block: true, Deltas: true}}, Report{IDless: 1}, ""},
		{"other parts may be missing", Options{FinalityBegin: 12}, ClientOptions{MayLack: ship.Parts{Traces: true}},
			Report{IDless: 1, Lacking: Lacking{Finality: 2}}, "without finality data: 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.opt.First, tt.opt.End = 10, 20
			play(t, ChainOptions{}, tt.opt, func(s *scene) {
				tt.client.Dial = s.net.DialContext
				c, err := Dial(context.Background(), s.node.URL(), tt.client)
				s.must(err)
				defer c.Close()
				s.must(c.Ask(everything(9, 13, 100)))
				synctest.Wait()
				got := c.Report()
				err = got.Err()
				got.Blocks, got.Last, got.Head, got.LIB = 0, ship.Pos{}, ship.Pos{}, ship.Pos{}
				if got != tt.want {
					t.Errorf("got %+v, want %+v", got, tt.want)
				}
				if (err == nil) != (tt.found == "") || err != nil && !strings.Contains(err.Error(), tt.found) {
					t.Errorf("error %v, want one with %q", err, tt.found)
				}
			})
		})
	}
}

func TestPrevBlockLeftOut(t *testing.T) {
	var j judge
	j.ask(&ship.BlocksRequest{Start: 5, End: 9, MaxInFlight: 9})
	for n := uint32(5); n < 9; n++ {
		j.block(&ship.BlockHeader{HasThis: true, This: ship.Pos{Num: n}, HasPrev: n == 7, Prev: ship.Pos{Num: n - 1}}, time.Now())
	}
	// Nothing was sent before 5, so it may lack it.
	if j.NoPrevs != 2 || j.Err() != nil {
		t.Errorf("%d blocks without prev_block, error %v", j.NoPrevs, j.Err())
	}
}

func TestStatusVersions(t *testing.T) {
	var j judge
	j.statuses = []bool{true, false, true}
	for _, v1 := range []bool{true, true, true, false} {
		j.status(&ship.Status{V1: v1})
	}
	if j.OtherVersions != 1 || j.Unasked != 1 {
		t.Errorf("%d of another version, %d unasked", j.OtherVersions, j.Unasked)
	}
}

func TestArrivals(t *testing.T) {
	play(t, ChainOptions{}, Options{First: 10, End: 20}, func(s *scene) {
		c, err := Dial(context.Background(), s.node.URL(), ClientOptions{Dial: s.net.DialContext, KeepTimes: true})
		s.must(err)
		defer c.Close()
		s.node.Inject(Fault{Kind: Stall, Block: 12, For: 3 * time.Second})
		s.node.Inject(Fault{Kind: Jump, Block: 13, Count: 1})
		time.Sleep(time.Second)
		s.must(c.Ask(everything(9, 16, 100)))
		time.Sleep(time.Minute)
		want := []time.Duration{-1, 0, 0, 3 * time.Second, -1, 3 * time.Second, 3 * time.Second}
		if got := c.Arrivals(); !slices.Equal(got, want) {
			t.Errorf("arrivals %v, want %v", got, want)
		}
		for n, want := range map[uint32]time.Duration{
			11: 0, 12: 3 * time.Second, 15: 0,
			// These did not come, or the block before did not, or is unknown.
			8: -1, 9: -1, 10: -1, 13: -1, 14: -1, 16: -1,
		} {
			got, ok := c.Between(n)
			if ok != (want >= 0) || ok && got != want {
				t.Errorf("block %d came %v after the one before, %v; want %v", n, got, ok, want)
			}
		}
	})
}
