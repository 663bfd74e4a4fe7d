package policies

// First takes the first server in the order of the configuration: the others
// are spares.
type First struct{}

// Order is Policy.
func (*First) Order(_ *Request, servers []*Server, n int) []*Server {
	return arrange(servers, n, byPlace)
}
