package evm

import (
	"testing"
	"testing/synctest"
	"time"
)

// A filter lives for five minutes from the last time that it was asked for.
func TestFilterLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFilters()
		id := []byte(f.add(&filter{up: []byte(`"0x1"`)}, time.Now()))
		for range 3 {
			time.Sleep(filterLife)
			if x := f.use(id, time.Now()); x == nil || string(x.up) != `"0x1"` {
				t.Fatalf("it is gone though it is used: %v", x)
			}
		}
		time.Sleep(filterLife + time.Nanosecond)
		if f.use(id, time.Now()) != nil {
			t.Fatal("it lives on unused")
		}
		if len(f.byID) != 0 || f.used.Len() != 0 {
			t.Fatalf("%d are kept", len(f.byID))
		}
		if f.stats.Made.Load() != 1 || f.stats.Expired.Load() != 1 || f.stats.Displaced.Load() != 0 {
			t.Fatalf("%d have expired", f.stats.Expired.Load())
		}
	})
}

// One filter too many ends the one that was used least recently.
func TestFiltersAreBounded(t *testing.T) {
	f, now := newFilters(), time.Now()
	first := []byte(f.add(&filter{}, now))
	second := []byte(f.add(&filter{}, now))
	for range maxFilters - 2 {
		f.add(&filter{}, now)
	}
	if f.use(first, now) == nil {
		t.Fatal("the first one is gone before the table is full")
	}
	f.add(&filter{}, now)
	if f.use(second, now) != nil || f.use(first, now) == nil || f.used.Len() != maxFilters || len(f.byID) != maxFilters {
		t.Fatalf("not the oldest one has ended; %d filters", f.used.Len())
	}
	if f.stats.Made.Load() != maxFilters+1 || f.stats.Displaced.Load() != 1 {
		t.Fatalf("%d were displaced", f.stats.Displaced.Load())
	}
	// Nobody asks for any of them again, but whoever counts sees none.
	if got := f.count(now.Add(filterLife + 1)); got != 0 || f.stats.Expired.Load() != maxFilters {
		t.Fatalf("%d are counted, %d have expired", got, f.stats.Expired.Load())
	}
}

// Clients may read an id as a number and write it without leading zeros.
func TestIDsAreQuantities(t *testing.T) {
	seen := map[string]bool{}
	for range 500 {
		id := newID()
		if len(id) != 34 || id[:2] != "0x" || id[2] == '0' || seen[id] {
			t.Fatal(id)
		}
		seen[id] = true
	}
}
