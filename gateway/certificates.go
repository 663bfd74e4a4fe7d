package gateway

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"

	"flotilla/gateway/config"
	"flotilla/gateway/tlsfiles"
)

// presented is what a TLS port presents. A reload exchanges it; connections
// that are there keep theirs.
type presented struct {
	now atomic.Pointer[certificates]
}

// certificates are loaded, with what ends their watch.
type certificates struct {
	*tlsfiles.Certificates
	files *config.TLS
	stop  context.CancelFunc
}

// config is for new connections; nil for a plaintext port.
func (p *presented) config() *tls.Config {
	if c := p.now.Load(); c != nil {
		return c.Config()
	}
	return nil
}

// load loads what a configuration wants to present, or returns what is in use
// already when that is the same. what names the port in an error.
func (p *presented) load(files *config.TLS, what string, log *slog.Logger) (*certificates, error) {
	now := p.now.Load()
	if files == nil {
		return nil, nil
	}
	if now != nil && reflect.DeepEqual(now.files, files) {
		return now, nil
	}
	c, err := tlsfiles.Load(files)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	for _, w := range c.Warnings() {
		log.Warn("a certificate is out of its dates", "warning", w)
	}
	return &certificates{Certificates: c, files: files}, nil
}

// put puts certificates in use; nil makes it a plaintext port for the
// connections to come. Until ctx ends they are watched by a goroutine that
// background waits for.
func (p *presented) put(ctx context.Context, c *certificates, background *sync.WaitGroup, log *slog.Logger) {
	old := p.now.Swap(c)
	if old == c {
		return
	}
	if old != nil {
		old.stop()
	}
	if c != nil {
		ctx, stop := context.WithCancel(ctx)
		c.stop = stop
		background.Go(func() { c.Watch(ctx, log) })
	}
}
