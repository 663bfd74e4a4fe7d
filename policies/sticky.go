package policies

import (
	"cmp"
	"fmt"
	"math"
	"strings"
)

// Sticky keeps a client on one server for as long as that can serve it, by
// rendezvous hashing: when a server goes or comes, only its own clients move.
// A server of weight 2 has twice the clients.
type Sticky struct {
	// Header is the header of the client's request whose value stands for the
	// client; its address does when this is empty, or the request has no such
	// header.
	Header string `hcl:"header,optional"`
}

// Validate is Validator.
func (p *Sticky) Validate() error { return ValidateHeader(p.Header) }

// Headers is HeaderUser.
func (p *Sticky) Headers() []string { return []string{p.Header} }

// Order is Policy.
func (p *Sticky) Order(r *Request, servers []*Server, n int) []*Server {
	key := r.Client
	for name, value := range r.Headers {
		if value != "" && strings.EqualFold(name, p.Header) {
			key = value
		}
	}
	start := hashText(fnvStart, key)
	return arrange(servers, n, func(a, b *Server) int {
		if t := tier(a, b); t != 0 {
			return t
		}
		return cmp.Or(cmp.Compare(attraction(start, b), attraction(start, a)), cmp.Compare(a.ID, b.ID))
	})
}

// attraction is the weight of a server for a key: of all servers, the one with
// the highest is the key's.
func attraction(key uint64, s *Server) float64 {
	h := mix(hashText(key, s.Name))
	// A number from 0 to 1, both exclusive.
	u := (float64(h>>11) + 0.5) / (1 << 53)
	return float64(s.Weight) / -math.Log(u)
}

// mix spreads what FNV leaves in the low bits: names that differ in their last
// letter only are as good as any.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

// ValidateHeader is the error of a text that is no name of a header; empty is
// allowed.
func ValidateHeader(name string) error {
	const marks = "!#$%&'*+-.^_`|~"
	if strings.ContainsFunc(name, func(r rune) bool {
		return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && !strings.ContainsRune(marks, r)
	}) {
		return fmt.Errorf("the header %q is not the name of a header, such as \"x-account\"", name)
	}
	return nil
}
