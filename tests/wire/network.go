package wire

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"sync"

	"flotilla/gateway/simulator"
)

// Network opens ports and connects to them as a simulator.Network does, which
// it uses for that. It fits gateway.Options.Network, simulator.Options.Listen
// and simulator.ClientOptions.Dial. All methods may be called from any
// goroutine.
type Network struct {
	base *simulator.Network
	seed uint64

	mu    sync.Mutex
	dials uint64
	// between are the links that were dialed and not accepted yet.
	between map[uint64]*Link
	links   map[string][]*Link
	counts  map[string]int
	plans   map[string]func(*Link)
}

// New makes an empty network. seed decides all that is random in it.
func New(seed uint64) *Network {
	return &Network{
		base: simulator.NewNetwork(), seed: seed, between: map[uint64]*Link{},
		links: map[string][]*Link{}, counts: map[string]int{}, plans: map[string]func(*Link){},
	}
}

// OnDial has plan shape each link to address from now on before its first
// byte; it replaces the plan before, and nil removes it. plan runs in the
// dialing goroutine and must not wait.
func (n *Network) OnDial(address string, plan func(*Link)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.plans[address] = plan
}

// Open returns the links to address that have not ended, the oldest first.
func (n *Network) Open(address string) []*Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.links[address] = slices.DeleteFunc(n.links[address], (*Link).Ended)
	return slices.Clone(n.links[address])
}

// DialContext connects to a listener of this network, or is refused at once.
func (n *Network) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	link, id := n.newLink(address)
	base, err := n.base.DialContext(ctx, network, address)
	if err != nil {
		n.accepted(id)
		return nil, err
	}
	n.mu.Lock()
	n.links[address] = append(slices.DeleteFunc(n.links[address], (*Link).Ended), link)
	plan := n.plans[address]
	n.mu.Unlock()
	if plan != nil {
		plan(link)
	}
	// The connection below carries nothing but the number of the link.
	defer base.Close()
	if _, err := base.Write(binary.BigEndian.AppendUint64(nil, id)); err != nil {
		return nil, err
	}
	return &conn{in: link.Down, out: link.Up, address: base.RemoteAddr()}, nil
}

// newLink makes a link and the number under which the listener finds it.
func (n *Network) newLink(address string) (*Link, uint64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dials++
	n.counts[address]++
	h := fnv.New64a()
	fmt.Fprint(h, address)
	link := &Link{Number: n.counts[address]}
	random := func(direction uint64) *rand.Rand {
		return rand.New(rand.NewPCG(n.seed^h.Sum64(), uint64(link.Number)<<1|direction))
	}
	link.Up, link.Down = newLine(link, random(0)), newLine(link, random(1))
	n.between[n.dials] = link
	return link, n.dials
}

func (n *Network) accepted(id uint64) *Link {
	n.mu.Lock()
	defer n.mu.Unlock()
	link := n.between[id]
	delete(n.between, id)
	return link
}

// Listen takes host:port; port 0 picks a free one.
func (n *Network) Listen(address string) (net.Listener, error) {
	l, err := n.base.Listen(address)
	if err != nil {
		return nil, err
	}
	return &listener{Listener: l, network: n}, nil
}

type listener struct {
	net.Listener
	network *Network
}

func (l *listener) Accept() (net.Conn, error) {
	base, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	defer base.Close()
	var id [8]byte
	if _, err := io.ReadFull(base, id[:]); err != nil {
		return nil, err
	}
	link := l.network.accepted(binary.BigEndian.Uint64(id[:]))
	return &conn{in: link.Up, out: link.Down, address: l.Addr()}, nil
}
