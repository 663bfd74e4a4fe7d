// Package policies holds the built-in selection policies: they order
// upstreams that could serve a request equally well.
package policies

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"

	"flotilla/gateway/fleet"
)

// LeastConnections orders two upstreams for a session: lower priority first,
// then fewer links per unit of weight, then the larger weight, then a hash
// that spreads sessions but does not change for one (spec "ship" 3.2, keys 3
// to 6). Negative means that a goes first.
func LeastConnections(session uint64, a, b *fleet.Upstream) int {
	return cmp.Or(
		cmp.Compare(a.Server.Priority, b.Server.Priority),
		// links(a)/weight(a) < links(b)/weight(b), without dividing (G7).
		cmp.Compare(a.Live.Links()*int64(b.Server.Weight), b.Live.Links()*int64(a.Server.Weight)),
		cmp.Compare(b.Server.Weight, a.Server.Weight),
		cmp.Compare(sessionHash(session, a.Server.Endpoint), sessionHash(session, b.Server.Endpoint)),
	)
}

// sessionHash is G9.
func sessionHash(session uint64, endpoint string) uint64 {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, session))
	h.Write([]byte(endpoint))
	return h.Sum64()
}
