package simulator

import (
	"strings"
	"testing"
	"time"

	"flotilla/gateway/ship"
)

// TestJudge feeds hand-made results: each letter is a branch, so "7b" is
// number 7 on branch b; links lead to the branch behind "<", or the same.
func TestJudge(t *testing.T) {
	pos := func(n uint32, branch byte) ship.Pos { return ship.Pos{Num: n, ID: ship.ID{byte(n), branch}} }
	type result struct {
		num       uint32
		branch    byte
		prev      byte // 0 is the same branch
		head, lib uint32
	}
	run := func(from, to uint32, branch byte) (out []result) {
		for n := from; n <= to; n++ {
			out = append(out, result{num: n, branch: branch})
		}
		return out
	}
	join := func(parts ...[]result) (out []result) {
		for _, p := range parts {
			out = append(out, p...)
		}
		return out
	}
	for _, tt := range []struct {
		name    string
		credit  uint32
		results []result
		want    Report
		fault   string // in the error; empty is none
	}{
		{"right", 100, run(5, 20, 'a'), Report{}, ""},
		{"a fork", 100, join(run(5, 9, 'a'), []result{{num: 8, branch: 'b', prev: 'a'}}, run(9, 11, 'b')), Report{Forks: 1}, ""},
		{"a fork and back", 100, join(run(5, 9, 'a'), []result{{num: 9, branch: 'b', prev: 'a'}}, run(9, 10, 'a')), Report{Forks: 2}, ""},
		{"a gap", 100, join(run(5, 9, 'a'), run(12, 13, 'a')), Report{Gaps: 1, Missing: 2}, "gaps: 1"},
		{"a gap at the start", 100, run(6, 8, 'a'), Report{Gaps: 1, Missing: 1}, "gaps: 1"},
		{"repeated", 100, join(run(5, 9, 'a'), run(8, 10, 'a')), Report{Duplicates: 2}, "sent twice: 2"},
		{"repeated after a fork", 100, join(run(5, 9, 'a'), []result{{num: 8, branch: 'b', prev: 'a'}, {num: 8, branch: 'b', prev: 'a'}}, run(9, 9, 'b')),
			Report{Forks: 1, Duplicates: 1}, "sent twice: 1"},
		{"another branch below LIB", 100, join([]result{{num: 5, branch: 'a', lib: 50}}, run(6, 9, 'a'), []result{{num: 7, branch: 'b', prev: 'a'}}),
			Report{Duplicates: 1, LIBBacks: 5}, "sent twice: 1"},
		{"another parent", 100, join(run(5, 9, 'a'), run(10, 11, 'b')), Report{BrokenLinks: 1}, "link"},
		{"a fork that begins too late", 100, join(run(5, 9, 'a'), run(8, 9, 'b')), Report{Forks: 1, BrokenLinks: 1}, "link"},
		{"head falls", 100, join([]result{{num: 5, branch: 'a', head: 101}}, run(6, 7, 'a')), Report{HeadBacks: 2}, "head: 2"},
		{"LIB falls", 100, join([]result{{num: 5, branch: 'a', lib: 4}}, run(6, 7, 'a')), Report{LIBBacks: 2}, "LIB: 2"},
		{"beyond the credit", 3, run(5, 9, 'a'), Report{Overruns: 2}, "credit: 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var j judge
			j.ask(&ship.BlocksRequest{Start: 5, End: 1000, MaxInFlight: tt.credit})
			for _, r := range tt.results {
				if r.prev == 0 {
					r.prev = r.branch
				}
				j.block(&ship.BlockHeader{HasThis: true, This: pos(r.num, r.branch), HasPrev: true, Prev: pos(r.num-1, r.prev),
					Head: pos(max(r.head, 100), 'a'), LIB: pos(max(r.lib, 2), 'a')}, time.Now())
			}
			got := j.reportAt(j.last)
			got.Blocks, got.Last, got.Head, got.LIB, got.LongestSilence = 0, ship.Pos{}, ship.Pos{}, ship.Pos{}, 0
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			err := got.Err()
			if (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
				t.Errorf("error %v, want one with %q", err, tt.fault)
			}
		})
	}
}

func TestJudgeForgetsBelowLIB(t *testing.T) {
	var j judge
	j.ask(&ship.BlocksRequest{Start: 1, End: 1 << 30, MaxInFlight: 1 << 30})
	result := func(n uint32) {
		j.block(&ship.BlockHeader{HasThis: true, This: ship.Pos{Num: n}, Head: ship.Pos{Num: n}, LIB: ship.Pos{Num: n - 1}}, time.Now())
	}
	for n := uint32(1); n < 3*maxIDs; n++ {
		result(n)
	}
	if len(j.ids) > maxIDs {
		t.Errorf("%d ids are kept", len(j.ids))
	}
	j.block(&ship.BlockHeader{HasThis: true, This: ship.Pos{Num: 7}, Head: j.Head, LIB: j.LIB}, time.Now())
	if j.Duplicates != 1 || j.Forks != 0 {
		t.Errorf("a block from long ago: %d duplicates, %d forks", j.Duplicates, j.Forks)
	}
}

func TestSilence(t *testing.T) {
	at := time.Unix(0, 0)
	var j judge
	n := uint32(4)
	block := func(after time.Duration) {
		at = at.Add(after)
		n++
		j.block(&ship.BlockHeader{HasThis: true, This: ship.Pos{Num: n}}, at)
	}
	silence := func(want time.Duration) {
		t.Helper()
		if got := j.reportAt(at).LongestSilence; got != want {
			t.Errorf("longest silence %v, want %v", got, want)
		}
	}
	j.ask(&ship.BlocksRequest{Start: 5, End: 9, MaxInFlight: 3})
	block(time.Hour) // the first one waits for nothing
	silence(0)
	block(time.Second)
	block(2 * time.Second)
	silence(2 * time.Second)
	at = at.Add(time.Hour) // no credit
	silence(2 * time.Second)
	j.ack(5)
	block(time.Second)
	silence(2 * time.Second)
	at = at.Add(time.Hour) // at the end
	silence(2 * time.Second)
}

func TestPayloadCheck(t *testing.T) {
	id := NewChain(ChainOptions{Head: 9}).Pos(5).ID
	for size := range 40 {
		good := AppendPayload(nil, FieldTraces, id, size)
		if len(good) != size || !isPayload(good, FieldTraces, id) {
			t.Fatalf("%d bytes: not taken as what they are", size)
		}
		for i := range good {
			good[i]++
			if isPayload(good, FieldTraces, id) {
				t.Fatalf("a change of byte %d of %d is not seen", i, size)
			}
			good[i]--
		}
		if size > 8 && isPayload(good, FieldDeltas, id) {
			t.Fatal("traces pass as deltas")
		}
	}
}

func BenchmarkStream(b *testing.B) {
	chain := NewChain(ChainOptions{Head: uint32(b.N) + 2, Sizes: Sizes{Block: 60, Traces: 100, Deltas: 100}})
	node, err := Start(chain, Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer node.Close()
	c, err := Dial(b.Context(), node.URL(), ClientOptions{AckEvery: 20})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.ResetTimer()
	if err := c.Ask(everything(2, uint32(b.N)+2, 1000)); err != nil {
		b.Fatal(err)
	}
	if err := c.Wait(b.Context(), func(r Report) bool { return r.Blocks == uint64(b.N) }); err != nil {
		b.Fatal(err)
	}
}
