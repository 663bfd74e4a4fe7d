package policies

import "cmp"

// Freshest takes the server with the highest head, and LeastConnections among
// those.
type Freshest struct{}

// Order is Policy.
func (*Freshest) Order(r *Request, servers []*Server, n int) []*Server {
	return arrange(servers, n, func(a, b *Server) int {
		if c := cmp.Or(tier(a, b), cmp.Compare(b.Head, a.Head)); c != 0 {
			return c
		}
		return load(r, a, b)
	})
}
