package evm

import (
	"context"
	"errors"
	"fmt"
	"time"

	"flotilla/gateway/config"
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
	f.mu.Lock()
	timeout, blocks, chain := f.cfg.Health.Timeout, f.cfg.Health.Agree, f.checksChain()
	f.mu.Unlock()
	if chain {
		f.askChain(n, timeout)
	}
	tip, began := f.tip(), time.Now()
	height, hash, err := headOf(n.client, blocks, timeout)
	now := time.Now()
	if err != nil {
		n.checksLeft = 0
		f.failed(n, err, now)
		return
	}
	if f.reported(n, height, hash, now.Sub(began), tip, now) {
		f.askVersion(n)
	}
}

// askChain asks a node for its chain, now and then. That it does not tell shows
// at its height, too.
func (f *fleet) askChain(n *Node, timeout time.Duration) {
	if n.checksLeft--; n.checksLeft > 0 {
		return
	}
	result, err := n.call(method("eth_chainId"), timeout)
	if err != nil {
		return
	}
	id, err := jsonrpc.Number(result)
	if err != nil {
		return
	}
	n.checksLeft = chainChecks
	f.mu.Lock()
	n.chain = id
	f.mu.Unlock()
}

// latestBlock asks for the newest block.
const latestBlock = `{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":["latest",false]}`

// headOf asks for the height, and with blocks for the hash of the head as well.
func headOf(c *upstream.Client, blocks bool, timeout time.Duration) (height uint64, hash string, err error) {
	if !blocks {
		height, err = heightOf(c, "eth_blockNumber", timeout)
		return height, "", err
	}
	result, err := ask(c, latestBlock, timeout)
	if err != nil {
		return 0, "", err
	}
	if height, err = jsonrpc.Number(jsonrpc.Inside(result, "number")); err != nil {
		return 0, "", fmt.Errorf("eth_getBlockByNumber answers no block")
	}
	text, _ := jsonrpc.Text(jsonrpc.Inside(result, "hash"))
	return height, string(text), nil
}

// tags follows the blocks that are safe and final, as the freshest node has
// them, until ctx ends.
func (l *Listener) tags(ctx context.Context) {
	for {
		cfg := l.Config()
		if v := l.View(); cfg.Routing == config.RouteByBlock && len(v.Pool) > 0 && !l.draining.Load() {
			l.askTag(v.Pool[0].Node, `"safe"`, cfg.Health.Timeout)
			l.askTag(v.Pool[0].Node, `"finalized"`, cfg.Health.Timeout)
		}
		if !pause(ctx, max(cfg.Health.Interval, time.Second)) {
			return
		}
	}
}

// askTag raises what clients are told for a tag. Chains without it answer an
// error.
func (l *Listener) askTag(n *Node, tag string, timeout time.Duration) {
	result, err := n.call(`{"jsonrpc":"2.0","id":1,"method":"eth_getBlockByNumber","params":[`+tag+`,false]}`, timeout)
	if err != nil {
		return
	}
	if number, err := jsonrpc.Number(jsonrpc.Inside(result, "number")); err == nil && number <= l.View().Tip {
		l.heads.tell([]byte(tag), number)
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
		f.log.Debug("a node does not tell its version", "server", n.name(), "error", err)
		return
	}
	text, ok := jsonrpc.Text(result)
	if !ok {
		return
	}
	f.identified(n, string(text))
}

// identified takes in what a node calls itself.
func (f *fleet) identified(n *Node, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.gone(n) {
		return
	}
	n.version = version
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
