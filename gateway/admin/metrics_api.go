package admin

import (
	"strings"

	"flotilla/chainapi"
	"flotilla/gateway/config"
)

// The families of a chain API (spec "observability" 3.4). They are there only
// when a listener has one.

// of limits a reader to the upstreams of one role.
func of(role config.Role, read func(*chainapi.API) float64) func(*chainapi.API, sink) {
	return func(a *chainapi.API, to sink) {
		if a.Server.Role == role {
			to.value(read(a))
		}
	}
}

func apiGauge(name, help string, read func(*chainapi.API, sink)) metric[*chainapi.API] {
	return metric[*chainapi.API]{family{"fleet_router_upstream_api_" + name, gauge, help, nil}, read}
}

func each(read func(*chainapi.API) float64) func(*chainapi.API, sink) {
	return func(a *chainapi.API, to sink) { to.value(read(a)) }
}

var apiUpstreamMetrics = []metric[*chainapi.API]{
	apiGauge("up", "1 while the API of the node answers and is on the right chain.",
		each(func(a *chainapi.API) float64 { return flag(a.Up()) })),
	apiGauge("chain_id_mismatch", "1 while the API of the node is on another chain.",
		each(func(a *chainapi.API) float64 { return flag(a.WrongChain) })),
	apiGauge("head_block", "Head of the last probe, 0 before the first.",
		of(config.Live, func(a *chainapi.API) float64 { return float64(a.Head) })),
	apiGauge("earliest_block", "First block that the node reports to have, 0 when it does not.",
		of(config.Live, func(a *chainapi.API) float64 { return float64(a.Earliest) })),
	apiGauge("blocks_begin_block", "First block that an archive serves, 0 until known.",
		of(config.Frozen, func(a *chainapi.API) float64 { return float64(a.Blocks.Begin) })),
	apiGauge("blocks_end_block", "One past the last block that an archive serves, 0 until known.",
		of(config.Frozen, func(a *chainapi.API) float64 { return float64(a.Blocks.End) })),
	apiGauge("verified", "1 while an archive is known to have the blocks of its SHiP endpoint.",
		of(config.Frozen, func(a *chainapi.API) float64 { return flag(a.Verified) })),
	apiGauge("in_flight", "Requests in flight to the API.",
		each(func(a *chainapi.API) float64 { return float64(a.Link().InFlight()) })),
	apiGauge("max_in_flight", "Limit of requests in flight to the API.",
		each(func(a *chainapi.API) float64 { return float64(a.Link().MaxInFlight()) })),
	{family{"fleet_router_upstream_api_requests_total", counter, "Attempts of client requests at the API, by how they ended.", []string{"result"}},
		func(a *chainapi.API, to sink) { eachLabel(a.Link().Requests(), to) }},
}

var apiMetrics = []metric[*chainapi.Port]{
	{family{"fleet_router_api_requests_total", counter, "Requests answered.", []string{"class", "code"}},
		func(p *chainapi.Port, to sink) {
			for _, class := range chainapi.Classes {
				for i, code := range chainapi.Codes {
					to.value(float64(p.Stats.Requests(class, i)), string(class), code)
				}
			}
		}},
	{family{"fleet_router_api_request_duration_seconds", histogram, "Time from the head of a request to the head of its answer.", []string{"class"}},
		func(p *chainapi.Port, to sink) {
			for _, class := range chainapi.Classes {
				to.histogram(p.Stats.Durations(class), string(class))
			}
		}},
	{family{"fleet_router_api_in_flight", gauge, "Requests being forwarded.", nil},
		func(p *chainapi.Port, to sink) { to.value(float64(p.Stats.InFlight.Load())) }},
	{family{"fleet_router_api_rejected_total", counter, "Connections and requests turned away.", []string{"reason"}},
		func(p *chainapi.Port, to sink) { eachLabel(&p.Stats.Rejected, to) }},
	{family{"fleet_router_api_retries_total", counter, "Attempts after which another node was asked, by why.", []string{"reason"}},
		func(p *chainapi.Port, to sink) { eachLabel(&p.Stats.Retries, to) }},
	{family{"fleet_router_api_block_requests_total", counter, "Block requests by what is known of the block and who answered.", []string{"region", "role"}},
		func(p *chainapi.Port, to sink) {
			p.Stats.BlockRequests.Each(func(served chainapi.Served, n uint64) {
				region, role, _ := strings.Cut(string(served), "/")
				to.value(float64(n), region, role)
			})
		}},
	{family{"fleet_router_api_pushes_total", counter, "Pushes by how they ended.", []string{"result"}},
		func(p *chainapi.Port, to sink) { eachLabel(&p.Stats.Pushes, to) }},
	{family{"flotilla_chain_api_connections_open", gauge, "Client connections open now.", nil},
		func(p *chainapi.Port, to sink) { to.value(float64(p.Stats.Connections.Load())) }},
	{family{"flotilla_chain_api_hedges_total", counter, "Reads for which a second node was asked, by whether its answer was taken.", []string{"result"}},
		func(p *chainapi.Port, to sink) { eachLabel(&p.Stats.Hedges, to) }},
	{family{"flotilla_chain_api_cache_lookups_total", counter, "Requests for irreversible blocks by how they met the cache.", []string{"result"}},
		func(p *chainapi.Port, to sink) { eachLabel(&p.Stats.CacheLookups, to) }},
	{family{"flotilla_chain_api_cache_bytes", gauge, "Memory that cached answers take.", nil},
		func(p *chainapi.Port, to sink) { to.value(float64(p.CacheBytes())) }},
}

// servesAPI reports whether any listener has a chain API.
func (s *State) servesAPI() bool {
	for i := range s.Listeners {
		if s.Listeners[i].ChainAPI != nil {
			return true
		}
	}
	return false
}
