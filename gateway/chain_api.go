package gateway

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"

	"flotilla/chainapi"
	"flotilla/gateway/config"
)

// chainAPI is the chain API port of a listener.
type chainAPI struct {
	*chainapi.Port
	tls  presented
	stop context.CancelFunc
	done sync.WaitGroup
}

func newChainAPI(l *listener, cfg *config.Listener, network Network) *chainAPI {
	return &chainAPI{Port: chainapi.New(cfg, l.parts.Load().running, l.fleet, network.DialContext, l.log)}
}

// start begins to watch the nodes. ctx ends that; it has to outlive the
// clients.
func (a *chainAPI) start(ctx context.Context) {
	ctx, a.stop = context.WithCancel(ctx)
	a.done.Go(func() { a.Run(ctx) })
}

func (a *chainAPI) take(conn net.Conn) { a.Serve(conn, a.tls.config()) }

// end closes the clients and returns when everything has ended.
func (a *chainAPI) end() {
	a.Stop()
	a.stop()
	a.done.Wait()
}

// loadAPI loads the certificates of the chain API that a configuration has.
func (l *listener) loadAPI(cfg *config.Listener) (*certificates, error) {
	now := &presented{}
	if l.api != nil {
		now = &l.api.tls
	}
	return now.load(cfg.ChainAPI.TLS, "listener "+cfg.Name+": chain_api", l.apiLog())
}

// commitAPI gives a listener the chain API of its configuration, or takes it
// away.
func (g *gateway) commitAPI(l *listener, cfg *config.Listener, certs *certificates) {
	switch old := l.api; {
	case cfg.ChainAPI == nil && old == nil:
		return
	case cfg.ChainAPI == nil:
		l.api = nil
		l.log.Info("the chain API is no longer in the configuration; its clients are closed")
		g.leaving.Go(func() {
			defer time.AfterFunc(g.cfg.ShutdownGrace, old.Kill).Stop()
			old.end()
		})
		return
	case old == nil:
		l.api = newChainAPI(l, cfg, g.network)
		l.api.start(l.watching)
	default:
		old.Update(cfg, l.parts.Load().running)
	}
	l.api.tls.put(l.watching, certs, &l.background, l.apiLog())
}

// apiLog is for what concerns certificates: the SHiP port may have the same.
func (l *listener) apiLog() *slog.Logger { return l.log.With("port", "chain_api") }
