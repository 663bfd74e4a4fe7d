package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/evm"
	"flotilla/policies"
)

// evmListener is a listener for EVM JSON-RPC. It keeps the same order of life
// as the others: prepared, put in force, drained, stopped.
type evmListener struct {
	*evm.Listener
	log    *slog.Logger
	policy *chosen
	tls    *presented
	// watches waits for what watches the certificates.
	watches sync.WaitGroup
}

func (l *evmListener) take(conn net.Conn) { l.Take(conn) }

// managementPort is the second port of an evmListener.
type managementPort struct{ *evm.Listener }

func (m managementPort) take(conn net.Conn) { m.TakeManagement(conn) }

// evmChange is what a configuration does to one listener: it is new, or it
// changes.
type evmChange struct {
	cfg    *config.EVM
	fresh  *evmListener
	update *evm.Change
	policy *chosen
	certs  *certificates
}

// prepareEVM does what can fail.
func (g *gateway) prepareEVM(cfg *config.EVM) (*evmChange, error) {
	c := &evmChange{cfg: cfg}
	l := g.evm[cfg.Name]
	var now *chosen
	if l != nil {
		now = l.policy
	}
	var err error
	c.policy, err = choosePolicy(now, cfg.Policy, policies.Env{Listener: cfg.Name, Log: g.log.With("listener", cfg.Name)})
	switch {
	case err != nil:
	case l != nil:
		c.update, err = l.Prepare(cfg, c.policy.running)
	default:
		l, err = g.newEVM(cfg, c.policy)
		c.fresh = l
	}
	if err != nil {
		return nil, fmt.Errorf("listener %s: %w", cfg.Name, err)
	}
	c.certs, err = l.tls.load(cfg.TLS, "listener "+cfg.Name, l.log)
	return c, err
}

// newEVM makes a listener; nothing is dialed before it is started.
func (g *gateway) newEVM(cfg *config.EVM, policy *chosen) (*evmListener, error) {
	p := &presented{}
	l, err := evm.New(cfg, evm.Options{Network: g.network, Trust: g.trust, Level: g.opts.Level, Logger: g.log, Certificates: p.config, Policy: policy.running})
	return &evmListener{Listener: l, log: g.log.With("listener", cfg.Name), tls: p}, err
}

// stopAll ends the clients, and then what serves them.
func (l *evmListener) stopAll() {
	l.Stop()
	if c := l.tls.now.Load(); c != nil {
		c.stop()
	}
	l.watches.Wait()
}

// commitEVM puts the changes in force and returns the addresses in use.
func (g *gateway) commitEVM(changes []*evmChange) (used []string) {
	before := g.evm
	g.evm = map[string]*evmListener{}
	for _, c := range changes {
		l := c.fresh
		if l != nil {
			l.Start(g.servingEVM)
		} else {
			l = before[c.cfg.Name]
			delete(before, c.cfg.Name)
			l.Apply(c.update)
		}
		l.policy = c.policy
		l.tls.put(context.WithoutCancel(g.servingEVM), c.certs, &l.watches, l.log)
		g.evm[c.cfg.Name] = l
		g.ports[c.cfg.Address].give(l)
		used = append(used, c.cfg.Address)
		if m := c.cfg.Management; m != nil {
			g.ports[m.Address].give(managementPort{l.Listener})
			used = append(used, m.Address)
		}
	}
	for name, l := range before {
		g.log.Info("the listener is no longer in the configuration; its clients are closed", "listener", name)
		g.leaving.Go(l.stopAll)
	}
	return used
}

// evmAddresses are the ports that a configuration wants for EVM.
func evmAddresses(cfg *config.Config) (list []string) {
	for _, l := range cfg.EVM {
		list = append(list, l.Address)
		if l.Management != nil {
			list = append(list, l.Management.Address)
		}
	}
	return list
}

// drainEVM serves on while load balancers turn away, as long as the longest
// drain of a listener, or until it is told to hurry.
func (g *gateway) drainEVM() {
	longest := time.Duration(0)
	for _, l := range g.evm {
		l.Drain()
		longest = max(longest, l.Config().Drain)
	}
	t := time.NewTimer(longest)
	defer t.Stop()
	select {
	case <-t.C:
	case <-g.opts.Force:
	}
}

// stopEVM closes the EVM ports and waits for the clients, whom it cuts off
// when the grace is over.
func (g *gateway) stopEVM(stop context.CancelFunc) {
	g.drainEVM()
	for _, address := range evmAddresses(g.cfg) {
		g.ports[address].shut()
	}
	stop()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		for _, l := range g.evm {
			l.stopAll()
		}
	}()
	if g.inTime(gone) {
		return
	}
	for _, l := range g.evm {
		l.Kill()
	}
	<-gone
}
