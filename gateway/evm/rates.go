package evm

import (
	"net"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// rates bounds the calls a second of each client address.
type rates struct {
	each  rate.Limit
	burst int

	mu      sync.Mutex
	clients map[netip.Addr]*rate.Limiter
	// swept is when addresses without calls were forgotten last.
	swept time.Time
}

// ratesMemory is how long an address without calls is remembered. A limiter
// that is full again is as good as a new one.
const ratesMemory = time.Minute

// newRates allows each calls a second and burst at once; a burst of 0 is one
// second's worth. An each of 0 is no limit.
func newRates(each, burst int) *rates {
	if burst == 0 {
		burst = each
	}
	return &rates{each: rate.Limit(each), burst: burst, clients: map[netip.Addr]*rate.Limiter{}}
}

// allow reports whether an address may make so many calls now. More calls than
// the burst, in one batch, count as the burst.
func (r *rates) allow(from net.Addr, calls int, now time.Time) bool {
	if r.each == 0 {
		return true
	}
	addr := netip.Addr{}
	if tcp, ok := from.(*net.TCPAddr); ok {
		addr = tcp.AddrPort().Addr().Unmap()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.swept) > ratesMemory {
		r.swept = now
		for a, l := range r.clients {
			if l.TokensAt(now) >= float64(r.burst) {
				delete(r.clients, a)
			}
		}
	}
	l := r.clients[addr]
	if l == nil {
		l = rate.NewLimiter(r.each, r.burst)
		r.clients[addr] = l
	}
	return l.AllowN(now, min(calls, r.burst))
}
