package chainapi

import (
	"context"
	"sync"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/ship"
)

// The rules of seed 003 "Upstream APIs".
const (
	// downAfter is how many probes in a row have to fail.
	downAfter = 2
	// busyTime is how long an API that answered 503 is skipped.
	busyTime = 2 * time.Second
)

// owner is the state that only the goroutine of Run touches.
type owner struct {
	p     *Port
	ctx   context.Context
	known []*known
	// first is the first chain that any API reported.
	first   *ship.ID
	probers sync.WaitGroup
	dirty   bool
	// links counts those that were made.
	links int
}

// known is what the owner knows of one upstream API. Its API is what the next
// view shows.
type known struct {
	API
	// failed counts probes that failed in a row; 0 also before the first one.
	failed int
	// chain is what the API reported last, shipChain what the server's own SHiP
	// endpoint did.
	chain, shipChain *ship.ID
	// ship is the head that SHiP reported last; Num is 0 before that.
	ship ship.Pos
	// last is the last block that an archive describes, proven the one for which
	// it was verified.
	last, proven ship.Pos
	// limit is the max_in_flight that an archive describes; 0 is none.
	limit int
	// doubted: it was said why an archive is not verified.
	doubted string
	stop    context.CancelFunc
}

// publish makes a new view when something changed.
func (o *owner) publish() {
	if !o.dirty {
		return
	}
	o.dirty = false
	v := &View{}
	for _, k := range o.known {
		v.APIs = append(v.APIs, k.API)
		if r := k.claim(); !r.Empty() {
			v.claims = append(v.claims, r)
		}
	}
	o.p.view.Store(v)
}

// update takes in a configuration.
func (o *owner) update(s *settings) {
	o.p.settings.Store(s)
	o.p.cache.resize(s.api.Cache)
	o.dirty = true
	type key struct {
		endpoint string
		role     config.Role
	}
	before := map[key]*known{}
	for _, k := range o.known {
		before[key{k.Server.APIEndpoint, k.Server.Role}] = k
	}
	o.known = nil
	for _, server := range s.Servers {
		if !server.Enabled || server.APIEndpoint == "" {
			continue
		}
		id := key{server.APIEndpoint, server.Role}
		k := before[id]
		delete(before, id)
		if k == nil {
			k = &known{API: API{link: newLink(server.APIEndpoint, o.p.dial)}}
			k.Server = server
			k.link.id = firstID + o.links
			o.links++
			o.watch(k)
		}
		k.Server, k.Priority, k.Weight, k.index = server, server.Priority, server.Weight, len(o.known)
		o.known = append(o.known, k)
		o.limit(k)
	}
	for _, k := range before {
		k.stop()
		k.link.client.close()
	}
	o.look()
}

// limit applies the limit of requests in flight: an archive's own counts when
// it is lower.
func (o *owner) limit(k *known) {
	n := o.p.Config().MaxInFlightPerUpstream
	if k.limit > 0 {
		n = min(n, k.limit)
	}
	k.link.slots.setLimit(n)
}

// watch starts the prober of an API.
func (o *owner) watch(k *known) {
	ctx, stop := context.WithCancel(o.ctx)
	k.stop = stop
	m := &prober{p: o.p, known: k, frozen: k.Server.Role == config.Frozen, client: &client{address: k.Server.APIEndpoint, dial: o.p.dial}}
	o.probers.Go(func() { m.run(ctx) })
}

// look takes in what the SHiP side knows.
func (o *owner) look() {
	v := o.p.fleet.View()
	byEndpoint := map[string]*fleet.Upstream{}
	for i := range v.Upstreams {
		if u := &v.Upstreams[i]; !u.Removed {
			byEndpoint[u.Server.Endpoint] = u
		}
	}
	for _, k := range o.known {
		was := k.API
		if u := byEndpoint[k.Server.Endpoint]; u != nil && k.Server.URL != "" {
			k.Disabled, k.Priority, k.Weight, k.live = u.Disabled, u.Server.Priority, u.Server.Weight, u.Live
			if u.Reported {
				k.shipHead, k.ship = u.Head.Num, u.Head
			}
			if u.ChainID != nil {
				k.shipChain = u.ChainID
			}
		} else {
			k.Disabled, k.live = false, nil
		}
		o.judgeShip(k)
		if was.Disabled != k.Disabled || was.Priority != k.Priority || was.Weight != k.Weight || was.live != k.live || was.shipHead != k.shipHead {
			o.dirty = true
		}
	}
	o.judgeChains()
}

// judgeChains compares every API's chain with the one that it has to be on.
func (o *owner) judgeChains() {
	for _, k := range o.known {
		want := o.chainOf(k)
		wrong := k.chain != nil && want != nil && *k.chain != *want
		if wrong == k.WrongChain {
			continue
		}
		wasUp := k.Up()
		k.WrongChain, o.dirty = wrong, true
		switch {
		case wrong && k.Verified:
			o.refute(k, "it is on another chain_id")
		case wrong:
			o.p.log.Warn("a chain API is on another chain_id and is not used until that changes",
				"server", k.Server.Name, "api", k.Server.APIEndpoint, "chain_id", k.chain.String(), "expected", want.String())
		}
		o.told(k, wasUp, "")
	}
}

// chainOf is the chain that an API has to be on: the pinned one, else that of
// its own SHiP endpoint, else that of the listener's SHiP, else the first one
// that any API reported.
func (o *owner) chainOf(k *known) *ship.ID {
	for _, id := range []*ship.ID{
		(*ship.ID)(o.p.settings.Load().ChainID), k.shipChain, o.p.fleet.View().ChainID, o.first,
	} {
		if id != nil {
			return id
		}
	}
	return nil
}

// reported takes in the chain of a good probe.
func (o *owner) reported(k *known, chain ship.ID) {
	if k.chain == nil || *k.chain != chain {
		k.chain = &chain
	}
	if o.first == nil {
		o.first = k.chain
	}
	o.judgeChains()
}

// good takes in that a probe was answered.
func (o *owner) good(k *known) {
	wasUp := k.Up()
	k.failed, k.Lost = 0, false
	if !k.Good {
		k.Good, o.dirty = true, true
	}
	o.told(k, wasUp, "")
}

// bad takes in a probe that failed.
func (o *owner) bad(k *known, err error) {
	k.failed++
	if k.Lost {
		k.Lost, o.dirty = false, true
	}
	if k.failed < downAfter || !k.Good {
		return
	}
	wasUp := k.Up()
	k.Good, o.dirty = false, true
	o.told(k, wasUp, "its probes are not answered: "+err.Error())
}

// told logs when an API has come up or gone down.
func (o *owner) told(k *known, wasUp bool, why string) {
	switch up := k.Up(); {
	case up && !wasUp:
		o.p.log.Info("chain API up", "server", k.Server.Name, "api", k.Server.APIEndpoint)
	case !up && wasUp && why != "":
		o.p.log.Warn("chain API down", "server", k.Server.Name, "api", k.Server.APIEndpoint, "why", why)
	}
}

// of finds an API by its link; nil when a configuration has removed it.
func (o *owner) of(l *link) *known {
	for _, k := range o.known {
		if k.link == l {
			return k
		}
	}
	return nil
}

// broken takes an API down, for which a request failed in transport, until its
// next good probe. once: it was one that is not sent twice, and may have
// arrived.
func (p *Port) broken(l *link, why error, once bool) {
	l.client.forget()
	p.do(func(o *owner) {
		k := o.of(l)
		if k == nil || !k.Good {
			return
		}
		wasUp := k.Up()
		k.Good, k.Lost, k.failed, o.dirty = false, once, downAfter, true
		o.told(k, wasUp, "a request to it failed: "+why.Error())
	})
}

// overloaded has an API skipped for a while: it answered that it is busy.
func (p *Port) overloaded(l *link) {
	p.do(func(o *owner) {
		if k := o.of(l); k != nil {
			k.BusyUntil, o.dirty = time.Now().Add(busyTime), true
		}
	})
}
