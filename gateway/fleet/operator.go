package fleet

// Override puts another priority or weight of upstream i in force; nil leaves it
// as it is. The next configuration puts its own in force again.
func (f *Fleet) Override(i int, priority, weight *uint32) {
	f.do(func(o *owner) {
		u := &o.upstreams[i]
		s := *u.Server
		if priority != nil {
			s.Priority = *priority
		}
		if weight != nil {
			s.Weight = *weight
		}
		u.Server, o.dirty = &s, true
	})
}

// Reset ends what an operator changed of upstream i: it may be picked, with the
// priority and weight of the configuration.
func (f *Fleet) Reset(i int) {
	f.do(func(o *owner) {
		u := &o.upstreams[i]
		for _, s := range monitored(f.Config()) {
			if s.Endpoint == u.Server.Endpoint {
				u.Server = s
			}
		}
		u.Disabled, o.dirty = false, true
	})
}
