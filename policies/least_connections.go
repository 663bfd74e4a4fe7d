package policies

import (
	"cmp"
	"encoding/binary"
)

// LeastConnections takes the server with the least load for its weight (spec
// "ship" 3.2, keys 3 to 6).
type LeastConnections struct{}

// Order is Policy.
func (*LeastConnections) Order(r *Request, servers []*Server, n int) []*Server {
	return arrange(servers, n, func(a, b *Server) int {
		if t := tier(a, b); t != 0 {
			return t
		}
		return load(r, a, b)
	})
}

// load orders two servers of one tier: one that the session has a link to, then
// less load per unit of weight first, then
// the larger weight, then a hash that spreads sessions but does not change for
// one. Other policies break ties by it.
func load(r *Request, a, b *Server) int {
	if a.Linked != b.Linked {
		// A link that is there saves a dial.
		return cmp.Compare(b.Linked, a.Linked)
	}
	// load(a)/weight(a) < load(b)/weight(b), without dividing (G7).
	if c := cmp.Compare(a.Load()*int64(b.Weight), b.Load()*int64(a.Weight)); c != 0 {
		return c
	}
	if a.Weight != b.Weight {
		return cmp.Compare(b.Weight, a.Weight)
	}
	return cmp.Compare(sessionHash(r.Session, a.Endpoint), sessionHash(r.Session, b.Endpoint))
}

// sessionHash is G9.
func sessionHash(session uint64, endpoint string) uint64 {
	var number [8]byte
	binary.LittleEndian.PutUint64(number[:], session)
	h := fnvStart
	for _, c := range number {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return hashText(h, endpoint)
}

// FNV-1a in 64 bits, without the allocations of hash/fnv.
const (
	fnvStart uint64 = 0xcbf29ce484222325
	fnvPrime uint64 = 0x100000001b3
)

// hashText goes on with a hash; fnvStart begins one.
func hashText(h uint64, text string) uint64 {
	for i := range len(text) {
		h = (h ^ uint64(text[i])) * fnvPrime
	}
	return h
}
