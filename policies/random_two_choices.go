package policies

import "math/rand/v2"

// RandomTwoChoices takes the better of two servers drawn at random: nearly as
// even as LeastConnections, without a crowd that runs to the server that has
// just become the emptiest.
type RandomTwoChoices struct{}

// Order is Policy.
func (*RandomTwoChoices) Order(r *Request, servers []*Server, n int) []*Server {
	first := arrange(servers, 1, tier)[0]
	// Those of the best tier go to the front, to draw from.
	tied := 0
	for i, s := range servers {
		if tier(first, s) == 0 {
			servers[i], servers[tied] = servers[tied], s
			tied++
		}
	}
	rand.Shuffle(tied, func(i, j int) { servers[i], servers[j] = servers[j], servers[i] })
	if tied > 1 && load(r, servers[1], servers[0]) < 0 {
		servers[0], servers[1] = servers[1], servers[0]
	}
	if n > tied {
		var rest LeastConnections
		rest.Order(r, servers[tied:], n-tied)
	}
	return servers
}
