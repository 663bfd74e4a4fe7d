package wire

import (
	"testing"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
	"flotilla/tests/scene"
)

// world is a scene with bad cables between its parts.
type world struct {
	*scene.World
	net *Network
}

func inBubble(t *testing.T, seed uint64, chain simulator.ChainOptions, test func(t *testing.T, w *world)) {
	t.Helper()
	w := &world{}
	network := func() gateway.Network {
		w.net = New(seed)
		return w.net
	}
	scene.InBubble(t, chain, network, func(t *testing.T, inner *scene.World) {
		w.World = inner
		test(t, w)
	})
}

// node starts a node and returns its entry in the configuration too.
func (w *world) node(o simulator.Options) (*simulator.Node, *config.Server) {
	w.T.Helper()
	n := w.World.Node(o, nil)
	return n, w.Config.Servers[len(w.Config.Servers)-1]
}
