package fleet

import (
	"flotilla/gateway/config"
	"flotilla/gateway/ship"
)

// Update puts another configuration of the same listener in force. A server is
// the same one when its endpoint is spelled the same: it keeps its place, its
// state and its counters. One that is gone keeps its place too, marked Removed,
// so that an index means one upstream for as long as the fleet lives.
func (f *Fleet) Update(cfg *config.Listener) {
	f.do(func(o *owner) { o.update(cfg) })
}

func (o *owner) update(cfg *config.Listener) {
	o.dirty = true
	// Until the servers that are added are counted, nothing is settled.
	o.f.unsettled.Add(1)
	defer o.f.settle()
	old := o.f.cfg.Swap(cfg)
	if old.Monitoring != cfg.Monitoring {
		o.tick.Reset(cfg.Monitoring)
	}
	if cfg.Quarantine == nil {
		o.pardon()
	}
	listed := map[string]*config.Server{}
	for _, s := range monitored(cfg) {
		listed[s.Endpoint] = s
	}
	for i := range o.upstreams {
		u := &o.upstreams[i]
		s := listed[u.Server.Endpoint]
		delete(listed, u.Server.Endpoint)
		switch {
		case s != nil && u.Removed:
			*u = newUpstream(s, u.Live)
			o.add(i)
			o.f.log.Info("a server is back in the configuration", "server", s.Name)
		case s != nil:
			u.serve(s)
		case !u.Removed:
			o.remove(i)
		}
	}
	for _, s := range monitored(cfg) {
		if listed[s.Endpoint] == nil {
			continue
		}
		o.upstreams = append(o.upstreams, newUpstream(s, newLive()))
		o.private = append(o.private, private{})
		o.add(len(o.upstreams) - 1)
		o.f.log.Info("a server was added", "server", s.Name)
	}
	o.recheckChains()
}

// add watches an upstream that was not there at the start.
func (o *owner) add(i int) {
	o.f.unsettled.Add(1)
	o.watch(i)
}

// pardon ends all quarantines and forgets the failures that count towards one.
func (o *owner) pardon() {
	for i := range o.private {
		o.private[i].strikes = newStrikes()
	}
}

// remove takes an upstream out of use. Links that sessions have to it stay
// until these have moved.
func (o *owner) remove(i int) {
	u := &o.upstreams[i]
	o.private[i].stop()
	*u = Upstream{Server: u.Server, Live: u.Live, Removed: true}
	o.private[i] = private{strikes: newStrikes(), stop: func() {}}
	o.f.log.Info("a server was removed", "server", u.Server.Name)
}

// recheckChains takes offline what the configuration now in force would not
// have let online. The next status decides anew. When the listener is put on
// another chain, what nodes reported of the old one is forgotten, as coverage
// counts those that are offline.
func (o *owner) recheckChains() {
	pinned := (*ship.ID)(o.f.Config().ChainID)
	if pinned == nil {
		return
	}
	moved := o.chain != nil && *o.chain != *pinned
	for i := range o.upstreams {
		u := &o.upstreams[i]
		if u.Online && (u.ChainID == nil && o.f.Config().RequireChainID || u.ChainID != nil && *u.ChainID != *pinned) {
			o.offline(i)
		}
		if moved && !u.Online {
			u.forget()
		}
	}
}
