package chainapi

import (
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/sync/singleflight"
)

// cache keeps answers about irreversible blocks, which cannot change. Requests
// for the same one at the same time ask one node together. It is off until it
// has a size.
type cache struct {
	mu     sync.Mutex
	lru    *simplelru.LRU[string, *entry]
	size   int64
	used   int64
	flight singleflight.Group
}

// entry is an answer in memory. It is never changed.
type entry struct {
	by     *API
	status int
	// head are the status line and the headers that pass, without those of the
	// port and of the framing.
	head, body []byte
}

const (
	// cacheShare is which part of the cache one answer may take.
	cacheShare = 16
	// cacheLargest bounds one answer in any case: while it is read whole, nothing
	// of it is passed on.
	cacheLargest = 1 << 20
	// cacheKey bounds the body of a request that is looked up.
	cacheKey = 256
	// entryCost is what an entry takes beside its bytes.
	entryCost = 256
)

func (e *entry) cost(key string) int64 { return int64(len(key)+len(e.head)+len(e.body)) + entryCost }

// resize sets how many bytes the cache may take, and forgets what it has: it
// comes with a new configuration, which may be of another chain.
func (c *cache) resize(size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.size, c.used, c.lru = size, 0, nil
	if size == 0 {
		return
	}
	// Bytes are the limit; the number is only one that they cannot exceed.
	lru, err := simplelru.NewLRU(int(size/entryCost)+1, func(key string, e *entry) { c.used -= e.cost(key) })
	if err == nil {
		c.lru = lru
	}
}

// largest is how large an answer may be that is kept; 0 is none.
func (c *cache) largest() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lru == nil {
		return 0
	}
	return int(min(c.size/cacheShare, cacheLargest))
}

func (c *cache) get(key string) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lru == nil {
		return nil
	}
	e, _ := c.lru.Get(key)
	return e
}

func (c *cache) put(key string, e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lru == nil {
		return
	}
	c.lru.Remove(key)
	c.lru.Add(key, e)
	for c.used += e.cost(key); c.used > c.size; {
		if _, _, ok := c.lru.RemoveOldest(); !ok {
			return
		}
	}
}

// CacheBytes is how much memory the cached answers take.
func (p *Port) CacheBytes() int64 {
	p.cache.mu.Lock()
	defer p.cache.mu.Unlock()
	return p.cache.used
}

// cacheable reports whether the answer to the request may be kept.
func (x *exchange) cacheable() bool {
	return x.s.api.Cache > 0 && !x.call.isHead() && len(x.call.body) <= cacheKey
}

// cached answers from memory, else together with whoever asks the same at this
// time, else by asking.
func (x *exchange) cached(list []*API, decide judge) error {
	key := string(x.path) + "\n" + string(x.call.body)
	if id := x.p.fleet.View().ChainID; id != nil {
		key += string(id[:])
	}
	if e := x.p.cache.get(key); e != nil {
		x.p.Stats.CacheLookups.Inc(CacheHit)
		return x.replay(e)
	}
	asked := false
	got, err, _ := x.p.cache.flight.Do(key, func() (any, error) {
		asked = true
		x.keep = func(e *entry) { x.p.cache.put(key, e) }
		// The others must not wait for our client to take its answer.
		x.reply = func() error { return nil }
		err := x.ask(list, decide)
		return x.kept, err
	})
	if asked {
		x.p.Stats.CacheLookups.Inc(CacheMiss)
		reply := x.reply
		x.reply = nil
		if err != nil {
			return err
		}
		return reply()
	}
	if e, _ := got.(*entry); e != nil {
		x.p.Stats.CacheLookups.Inc(CacheShared)
		return x.replay(e)
	}
	// What came is not for everybody: everybody asks on their own.
	x.p.Stats.CacheLookups.Inc(CacheMiss)
	return x.ask(list, decide)
}

// finish passes on a final answer. One that may be kept is read whole before.
func (x *exchange) finish(a *API, r *response) error {
	if x.keep == nil || r.head.StatusCode() != 200 {
		return x.relay(a, r)
	}
	most := x.p.cache.largest()
	if limit := x.s.api.MaxResponse; limit > 0 {
		most = int(min(int64(most), limit))
	}
	body, whole, err := r.peek(most)
	if err != nil || !whole {
		// What was read of it is passed on first.
		return x.relay(a, r)
	}
	// Only of the server, or a whole view would be kept with it.
	by := &API{Server: a.Server}
	x.kept = &entry{by: by, status: 200, head: appendAnswer(nil, r, nil), body: append([]byte(nil), body...)}
	x.keep(x.kept)
	return x.relay(a, r)
}

// replay answers from memory.
func (x *exchange) replay(e *entry) error {
	x.leave()
	x.by = e.by
	x.begun(e.status)
	buf := blocks.Get().(*[]byte)
	defer blocks.Put(buf)
	b := append(append((*buf)[:0], e.head...), x.s.cors...)
	b = x.c.framing(len(e.body)).appendEnd(b)
	b = append(b, e.body...)
	*buf = b
	_, err := x.c.Write(b)
	return err
}
