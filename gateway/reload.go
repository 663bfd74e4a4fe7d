package gateway

import (
	"errors"
	"fmt"
	"net"
	"reflect"
	"time"

	"flotilla/gateway/admin"
	"flotilla/gateway/config"
)

// Reload is a configuration to put in force, or the reason why there is none.
type Reload struct {
	Config *config.Config
	// Err is set instead of Config when what was read is no configuration.
	Err error
	// Why tells the log what brought it: a change of the files, or a signal.
	Why string
}

// reload puts a configuration in force; when that fails, everything stays as
// it was, and the admin port tells.
func (g *gateway) reload(r Reload) {
	err := r.Err
	if err == nil {
		if reflect.DeepEqual(r.Config, g.cfg) {
			g.publish(nil)
			g.log.Info("the configuration is the one in force", "why", r.Why)
			return
		}
		err = g.apply(r.Config)
	}
	if err != nil {
		g.log.Error("the configuration was not changed", "why", r.Why, "error", err)
		g.publish(func(s *admin.State) { s.ReloadOK, s.ReloadError = false, err.Error() })
		return
	}
	g.log.Info("a new configuration is in force", "why", r.Why, "revision", g.revision)
}

// change is a configuration that has been prepared: everything that can fail
// has been done.
type change struct {
	cfg    *config.Config
	opened portSet
	fresh  map[string]*listener
	certs  map[string]*certificates
	parts  map[string]*parts
	// apiCerts are those of the chain API ports, by listener.
	apiCerts map[string]*certificates
	admin    net.Listener
	// control is nil without a control API.
	control *admin.Control
	evm     []*evmChange
	// moveAdmin: the admin port is to be exchanged for admin, which is nil for
	// none.
	moveAdmin bool
}

// apply prepares a configuration and puts it in force, or changes nothing.
func (g *gateway) apply(cfg *config.Config) error {
	c, err := g.prepare(cfg)
	if err != nil {
		return err
	}
	g.commit(c)
	return nil
}

// prepare makes the listeners that are new, loads certificates and opens
// ports. Its error names everything that is in the way at one of these steps.
func (g *gateway) prepare(cfg *config.Config) (*change, error) {
	c := &change{cfg: cfg, fresh: map[string]*listener{}, certs: map[string]*certificates{}, parts: map[string]*parts{}, apiCerts: map[string]*certificates{}}
	var failed []error
	var wanted []string
	var err error
	if c.control, err = controlOf(cfg); err != nil {
		failed = append(failed, err)
	}
	for _, lc := range cfg.Listeners {
		wanted = append(wanted, lc.Address)
		l := g.listeners[lc.Name]
		if l == nil {
			var err error
			if l, err = newListener(lc, g.network, g.trust, g.log); err != nil {
				failed = append(failed, err)
				continue
			}
			c.fresh[lc.Name] = l
		}
		certs, err := l.tls.load(lc.TLS, "listener "+lc.Name, l.log)
		if err != nil {
			failed = append(failed, err)
		}
		c.certs[lc.Name] = certs
		if c.parts[lc.Name], err = l.loadParts(lc); err != nil {
			failed = append(failed, err)
		}
		if lc.ChainAPI == nil {
			continue
		}
		wanted = append(wanted, lc.ChainAPI.Address)
		if c.apiCerts[lc.Name], err = l.loadAPI(lc); err != nil {
			failed = append(failed, err)
		}
	}
	for _, ec := range cfg.EVM {
		change, err := g.prepareEVM(ec)
		if err != nil {
			failed = append(failed, err)
		}
		c.evm = append(c.evm, change)
	}
	wanted = append(wanted, evmAddresses(cfg)...)
	if failed != nil {
		return nil, errors.Join(failed...)
	}
	if err := g.prepareAdmin(c); err != nil {
		return nil, err
	}
	// Last of all: it may close old ports, which nothing but itself opens again.
	opened, err := g.ports.shift(g.network, wanted, func(p *port) { p.start(g.serving, g.log) })
	if err != nil {
		if c.admin != nil {
			c.admin.Close()
		}
		return nil, fmt.Errorf("a client port cannot be opened: %w", err)
	}
	c.opened = opened
	return c, nil
}

func (g *gateway) prepareAdmin(c *change) error {
	var now, then string
	if g.cfg != nil && g.cfg.Admin != nil {
		now = g.cfg.Admin.Address
	}
	if c.cfg.Admin != nil {
		then = c.cfg.Admin.Address
	}
	if c.moveAdmin = now != then; !c.moveAdmin || then == "" {
		return nil
	}
	var err error
	if c.admin, err = g.network.Listen(then); err != nil {
		return fmt.Errorf("the admin port cannot be opened: %w", err)
	}
	return nil
}

// commit puts a prepared change in force. Nothing in it can fail.
func (g *gateway) commit(c *change) {
	before := g.listeners
	g.listeners = map[string]*listener{}
	g.cfg, g.control = c.cfg, c.control
	g.revision++
	for address, p := range c.opened {
		g.ports[address] = p
	}
	used := map[string]bool{}
	for _, lc := range c.cfg.Listeners {
		l := c.fresh[lc.Name]
		if l != nil {
			l.adopt(c.parts[lc.Name])
			l.start(g.serving)
		} else {
			l = before[lc.Name]
			delete(before, lc.Name)
			l.fleet.Update(lc)
			l.adopt(c.parts[lc.Name])
		}
		l.tls.put(l.watching, c.certs[lc.Name], &l.background, l.log)
		g.listeners[lc.Name] = l
		g.ports[lc.Address].give(l)
		used[lc.Address] = true
		g.commitAPI(l, lc, c.apiCerts[lc.Name])
		if lc.ChainAPI != nil {
			g.ports[lc.ChainAPI.Address].give(l.api)
			used[lc.ChainAPI.Address] = true
		}
	}
	for _, address := range g.commitEVM(c.evm) {
		used[address] = true
	}
	g.publish(nil)
	for _, p := range c.opened {
		p.start(g.serving, g.log)
	}
	for address, p := range g.ports {
		if !used[address] {
			p.shut()
			delete(g.ports, address)
		}
	}
	for _, l := range before {
		l.log.Info("the listener is no longer in the configuration; its clients are closed")
		g.leaving.Go(func() {
			if l.api != nil {
				defer time.AfterFunc(c.cfg.ShutdownGrace, l.api.Kill).Stop()
			}
			l.stop()
		})
	}
	if c.moveAdmin {
		g.openAdmin(c.admin)
	}
	for _, lc := range c.cfg.Listeners {
		g.log.Info("listening", "listener", lc.Name, "address", g.ports[lc.Address].Addr().String(), "servers", len(lc.Servers), "tls", lc.TLS != nil)
		if a := lc.ChainAPI; a != nil {
			g.log.Info("chain API listening", "listener", lc.Name, "address", g.ports[a.Address].Addr().String(), "tls", a.TLS != nil)
		}
	}
	for _, ec := range c.cfg.EVM {
		g.log.Info("listening", "listener", ec.Name, "address", g.ports[ec.Address].Addr().String(), "servers", len(ec.Servers), "tls", ec.TLS != nil)
	}
}
