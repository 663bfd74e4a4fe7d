package policies

import (
	"net"
	"net/netip"
	"slices"
)

// Round is the scratch space of whoever asks a policy: the request, the servers
// and their texts. Its zero value is ready. One request at a time uses it; keep
// it for the next one, and nothing is allocated.
type Round struct {
	// Request is what the policy is told of the request.
	Request Request

	servers []Server
	offered []*Server
	headers map[string]string
	texts   map[string]string
	address []byte
}

// Reset begins a question about at most n servers.
func (r *Round) Reset(n int) {
	r.servers = slices.Grow(r.servers[:0], n)
}

// Add is the next server that is offered, empty, to be filled. There are no more
// of them than Reset was told.
func (r *Round) Add() *Server {
	if len(r.servers) == cap(r.servers) {
		panic("policies: more servers than Round.Reset was told")
	}
	r.servers = append(r.servers, Server{})
	return &r.servers[len(r.servers)-1]
}

// Len is how many servers are offered, and At one of them, in the order in
// which they were added.
func (r *Round) Len() int         { return len(r.servers) }
func (r *Round) At(i int) *Server { return &r.servers[i] }

// Ask puts the n best servers to the front and returns those that are kept, at
// least one. own is false where the policy keeps none, and LeastConnections has
// decided. The list is good until the next Reset.
func (r *Round) Ask(p Policy, n int) (kept []*Server, own bool) {
	if kept = p.Order(&r.Request, r.list(), n); len(kept) > 0 {
		return kept, true
	}
	// The policy may have left anything in the list.
	return fallback.Order(&r.Request, r.list(), n), false
}

// Place is which one of those that were added an answer of Ask is.
func (r *Round) Place(s *Server) int { return s.place }

// fallback decides what a policy has nothing to say about.
var fallback LeastConnections

func (r *Round) list() []*Server {
	r.offered = r.offered[:0]
	for i := range r.servers {
		r.servers[i].place = i
		r.offered = append(r.offered, &r.servers[i])
	}
	return r.offered
}

const (
	// MaxHeader is how many bytes of a header a policy is shown.
	MaxHeader = 256
	// maxTexts is how many texts a round remembers.
	maxTexts = 512
)

// Text is b as a text. One that was asked for lately is not made again.
func (r *Round) Text(b []byte) string {
	if text, ok := r.texts[string(b)]; ok {
		return text
	}
	if r.texts == nil {
		r.texts = map[string]string{}
	} else if len(r.texts) >= maxTexts {
		clear(r.texts)
	}
	text := string(b)
	r.texts[text] = text
	return text
}

// Address sets Request.Client to the address of a client, without its port.
func (r *Round) Address(client net.Addr) {
	r.Request.Client = ""
	if tcp, ok := client.(*net.TCPAddr); ok {
		if ip, ok := netip.AddrFromSlice(tcp.IP); ok {
			r.address = ip.Unmap().WithZone(tcp.Zone).AppendTo(r.address[:0])
			r.Request.Client = r.Text(r.address)
			return
		}
	}
	if client != nil {
		r.Request.Client = Host(client)
	}
}

// Host is an address without its port; all of it where it has none.
func Host(a net.Addr) string {
	if tcp, ok := a.(*net.TCPAddr); ok && tcp.IP != nil {
		return tcp.AddrPort().Addr().Unmap().String()
	}
	if host, _, err := net.SplitHostPort(a.String()); err == nil {
		return host
	}
	return a.String()
}

// ForgetHeaders empties Request.Headers, which is nil without any.
func (r *Round) ForgetHeaders() {
	clear(r.headers)
	r.Request.Headers = nil
}

// SetHeader fills Request.Headers. The name is in lower case; MaxHeader bytes of
// the value count.
func (r *Round) SetHeader(name, value string) {
	if r.headers == nil {
		r.headers = map[string]string{}
	}
	r.headers[name] = value[:min(len(value), MaxHeader)]
	r.Request.Headers = r.headers
}
