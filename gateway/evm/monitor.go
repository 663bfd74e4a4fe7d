package evm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flotilla/gateway/evm/jsonrpc"
	"flotilla/gateway/evm/upstream"
)

// monitor asks a node for its height at every interval, until ctx ends.
func (f *fleet) monitor(ctx context.Context, n *Node) {
	for {
		began := time.Now()
		if !f.isFrozen() {
			f.check(n)
			n.client.Trim(began)
		}
		if !pause(ctx, f.interval()-time.Since(began)) {
			return
		}
	}
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	if d <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

func (f *fleet) interval() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cfg.Health.Interval
}

func (f *fleet) timeout() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cfg.Health.Timeout
}

// check asks a node once.
func (f *fleet) check(n *Node) {
	tip, began := f.tip(), time.Now()
	height, err := heightOf(n.client, "eth_blockNumber", f.timeout())
	now := time.Now()
	if err != nil {
		f.failed(n, err, now)
		return
	}
	if f.reported(n, height, now.Sub(began), tip, now) {
		f.askVersion(n)
	}
}

// heightOf asks for a block number.
func heightOf(c *upstream.Client, name string, timeout time.Duration) (uint64, error) {
	result, err := ask(c, method(name), timeout)
	if err != nil {
		return 0, err
	}
	height, err := jsonrpc.Number(result)
	if err != nil {
		return 0, fmt.Errorf("%s answers no block number", name)
	}
	return height, nil
}

// askVersion asks a node what it is; that it does not tell harms nothing.
func (f *fleet) askVersion(n *Node) {
	result, err := n.call(method("web3_clientVersion"), f.timeout())
	if err != nil {
		f.log.Debug("a node does not tell its version", "server", n.Server.Endpoint, "error", err)
		return
	}
	text, ok := jsonrpc.Text(result)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	n.version = string(text)
	f.view.Store(f.view.Load().with(n))
}

// reference is the provider outside of the fleet.
type reference struct {
	client   *upstream.Client
	stop     context.CancelFunc
	answered bool
}

// watchReference asks the reference of the configuration from now on, in place
// of an older one. f.mu is held.
func (f *fleet) watchReference() {
	if f.reference != nil {
		f.reference.stop()
		f.reference = nil
	}
	if f.cfg.Reference == nil || f.running == nil {
		return
	}
	client, err := upstream.New(f.cfg.Reference.URL, f.cfg.Reference.Headers, f.network, f.trust)
	if err != nil {
		f.log.Warn("the reference cannot be asked", "error", errors.Unwrap(err))
		return
	}
	ctx, stop := context.WithCancel(f.running)
	r := &reference{client: client, stop: stop}
	f.reference = r
	f.monitors.Go(func() {
		defer client.Close()
		for {
			began := time.Now()
			if !f.isFrozen() {
				f.askReference(r)
			}
			if !pause(ctx, f.referenceInterval()-time.Since(began)) {
				return
			}
		}
	})
}

func (f *fleet) referenceInterval() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.cfg.Reference == nil {
		return time.Hour
	}
	return f.cfg.Reference.Interval
}

// askReference asks the reference once. When it fails its last height stays.
func (f *fleet) askReference(r *reference) {
	f.mu.Lock()
	name, timeout := "eth_blockNumber", f.cfg.Health.Timeout
	if f.cfg.Reference != nil {
		name = f.cfg.Reference.Method
	}
	f.mu.Unlock()
	height, err := heightOf(r.client, name, timeout)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.reference != r || f.frozen {
		return
	}
	r.answered = true
	defer f.settle(time.Now())
	if err != nil {
		// Its URL may hold a key, so the error is not shown as it is.
		f.log.Debug("the reference did not answer", "error", stripped(err))
		return
	}
	v := *f.view.Load()
	v.External = &height
	f.judge(&v)
	f.view.Store(&v)
}

// stripped is an error without the URL that it is about.
func stripped(err error) error {
	var e *upstream.Error
	if errors.As(err, &e) {
		return e.Err
	}
	return err
}
