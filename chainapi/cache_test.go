package chainapi

import (
	"fmt"
	"testing"
)

func sized(key string, cost int) *entry { return &entry{body: make([]byte, cost-entryCost-len(key))} }

// The bytes that it holds are bounded, and what was not asked for longest goes
// first.
func TestCacheIsBounded(t *testing.T) {
	const size = 10_000
	var c cache
	has := func(when string, want string) {
		t.Helper()
		got, used := "", int64(0)
		if c.lru != nil {
			for _, key := range c.lru.Keys() { // the oldest first
				e, _ := c.lru.Peek(key)
				got, used = got+key, used+e.cost(key)
			}
		}
		if got != want || used != c.used || used > c.size {
			t.Errorf("%s: it has %q, %q was due; %d bytes, %d counted, of %d", when, got, want, used, c.used, c.size)
		}
	}
	c.put("a", sized("a", 1000))
	has("without a size", "")
	if c.get("a") != nil || c.largest() != 0 {
		t.Error("it is on without a size")
	}

	c.resize(size)
	for _, key := range []string{"a", "b", "c"} {
		c.put(key, sized(key, 3000))
	}
	has("with room for all", "abc")
	if c.get("a") == nil || c.get("x") != nil {
		t.Error("it has what it has not, or lacks what it has")
	}
	has("after a look", "bca")
	c.put("d", sized("d", 4000))
	has("with too much", "cad")
	c.put("c", sized("c", 1000))
	has("with another answer for the same", "adc")
	c.put("e", sized("e", size))
	has("with one that takes all", "e")
	c.put("f", sized("f", size+1))
	has("with one that is larger than all", "")

	for i := range 1000 {
		key := fmt.Sprint(i)
		c.put(key, sized(key, 300+i%500))
		if c.used > size {
			t.Fatalf("%d bytes are used after %d answers", c.used, i)
		}
	}
	c.resize(size)
	has("with a new size", "")
	for most, of := range map[int64]int64{cacheLargest: 1 << 30, size / cacheShare: size} {
		c.resize(of)
		if got := c.largest(); int64(got) != most {
			t.Errorf("of %d bytes one answer may take %d, not %d", of, got, most)
		}
	}
}
