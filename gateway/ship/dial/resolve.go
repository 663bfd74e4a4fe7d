package dial

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"
)

// resolveTimeout bounds the look-up of a node's name, so that a name server
// that does not answer cannot use up the time for the connect.
const resolveTimeout = 3 * time.Second

// resolver is what looks names up.
type resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// TCP connects over TCP: the name is looked up within a time of its own.
func TCP(ctx context.Context, network, address string) (net.Conn, error) {
	return connectTCP(ctx, net.DefaultResolver, network, address)
}

// connectTCP looks the host of address up, within a time of its own, and
// connects to the first of its addresses that answers. Each but the last has
// an equal share of the time that ctx leaves.
func connectTCP(ctx context.Context, names resolver, network, address string) (net.Conn, error) {
	// Nothing needs to be looked up.
	if _, err := netip.ParseAddrPort(address); err == nil {
		return dialTCP(ctx, network, address)
	}
	host, service, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := net.DefaultResolver.LookupPort(ctx, network, service)
	if err != nil {
		return nil, err
	}
	addrs, err := lookup(ctx, names, host)
	if err != nil {
		return nil, err
	}
	for i, addr := range addrs {
		limit, cancel := share(ctx, len(addrs)-i)
		conn, failure := dialTCP(limit, network, netip.AddrPortFrom(addr, uint16(port)).String())
		cancel()
		if failure == nil {
			return conn, nil
		}
		err = failure
	}
	return nil, err
}

// dialTCP leaves the choice of the local port to connect, which needs one that is
// free for this node only. Dialer.DialTCP binds one first, even to no address, so
// that all nodes together could have no more connections than there are ports.
func dialTCP(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, network, address)
}

func lookup(ctx context.Context, names resolver, host string) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return []netip.Addr{addr}, nil
	}
	limit, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	addrs, err := names.LookupNetIP(limit, "ip", host)
	switch {
	case err != nil && ctx.Err() == nil && limit.Err() != nil:
		return nil, fmt.Errorf("the name %s was not resolved within %v", host, resolveTimeout)
	case err != nil:
		return nil, err
	case len(addrs) == 0:
		return nil, fmt.Errorf("the name %s has no address", host)
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, nil
}

// share is ctx with an n-th of the time that it leaves.
func share(ctx context.Context, n int) (context.Context, context.CancelFunc) {
	deadline, ok := ctx.Deadline()
	if !ok || n == 1 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Until(deadline)/time.Duration(n))
}
