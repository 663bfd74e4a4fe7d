package config

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strings"
	"time"
)

// evmDraft is an EVM listener before its checks.
type evmDraft struct {
	EVM
	// protocol is the first label of the block.
	protocol string
}

// evmListenerField is listener "evm", the other kind of listenersField.
var evmListenerField = field{hcl: "listener", kind: objects, sub: evmSchema,
	labels: []string{"protocol", "name"}, example: `listener "evm" "name" { ... }`,
	open: func(parent any) any {
		doc, l := parent.(*document), &evmDraft{}
		doc.evm = append(doc.evm, l)
		return l
	},
}

// variantOf is the field of another kind of listener: for a block that is
// decoded, or for a draft that is written.
func variantOf(listener any) *field {
	switch x := listener.(type) {
	case *node:
		if protocol := x.member("protocol"); x.block && protocol != nil && protocol.text == "evm" {
			return &evmListenerField
		}
	case *evmDraft:
		return &evmListenerField
	}
	return nil
}

// maxChainID is what every wallet can hold.
const maxChainID = math.MaxInt64

var evmSchema = &schema{
	noun:  "listener",
	fresh: func() any { return &evmDraft{} },
	check: checkEVM,
	fields: []field{
		{hcl: "protocol", kind: text, at: at(func(l *evmDraft) *string { return &l.protocol })},
		{hcl: "name", kind: text, trim: true, filled: true, required: inHCL, at: at(func(l *evmDraft) *string { return &l.Name })},
		{hcl: "address", foreign: addressForeign, kind: text, required: inHCL, at: at(func(l *evmDraft) *string { return &l.Address })},
		{hcl: "chain_id", kind: count, min: 1, max: maxChainID, at: at(func(l *evmDraft) **uint64 { return &l.ChainID })},
		{hcl: "routing", kind: enum, values: []string{"block", "freshest"}, def: "block",
			at: at(func(l *evmDraft) *EVMRouting { return &l.Routing })},
		{hcl: "hold_wait", kind: millis, max: maxMillis, def: "3s", at: at(func(l *evmDraft) *time.Duration { return &l.HoldWait })},
		{hcl: "drain", kind: millis, max: maxMillis, def: "0s", at: at(func(l *evmDraft) *time.Duration { return &l.Drain })},
		tlsFieldHCL(func(parent any) **TLS { return &parent.(*evmDraft).TLS }),
		policyFieldOf(func(l any) **Policy { return &l.(*evmDraft).Policy }),
		embedded("health", evmHealthSchema, func(l *evmDraft) any { return &l.Health }),
		{hcl: "reference", kind: object, sub: evmReferenceSchema,
			open: func(parent any) any {
				l := parent.(*evmDraft)
				l.Reference = &EVMReference{}
				return l.Reference
			},
			children: func(parent any) []any { return present(parent.(*evmDraft).Reference) }},
		embedded("websocket", evmWebSocketSchema, func(l *evmDraft) any { return &l.WebSocket }),
		embedded("limits", evmLimitsSchema, func(l *evmDraft) any { return &l.Limits }),
		{hcl: "management", kind: object, sub: evmManagementSchema,
			open: func(parent any) any {
				l := parent.(*evmDraft)
				l.Management = &EVMManagement{}
				return l.Management
			},
			children: func(parent any) []any { return present(parent.(*evmDraft).Management) }},
		{hcl: "server", kind: objects, sub: evmServerSchema, labels: []string{"name"}, example: `server "name" { ... }`,
			open: func(parent any) any {
				l, s := parent.(*evmDraft), &EVMServer{}
				l.Servers = append(l.Servers, s)
				return s
			},
			children: func(parent any) []any { return present(parent.(*evmDraft).Servers...) }},
	},
}

// tlsFieldHCL is tlsField without its name in JSON.
func tlsFieldHCL(of func(parent any) **TLS) field {
	f := tlsField(of)
	f.json = ""
	return f
}

// embedded is a block of settings that a listener always has.
func embedded(name string, sub *schema, of func(*evmDraft) any) field {
	get := func(parent any) any { return of(parent.(*evmDraft)) }
	return field{hcl: name, kind: object, sub: sub, embedded: true, open: get,
		children: func(parent any) []any { return []any{get(parent)} }}
}

var evmServerSchema = &schema{
	noun:  "server",
	fresh: func() any { return &EVMServer{} },
	check: checkEVMServer,
	fields: []field{
		{hcl: "name", kind: text, filled: true, required: inHCL, at: at(func(s *EVMServer) *string { return &s.Name })},
		{hcl: "endpoint", kind: text, trim: true, filled: true, required: inHCL, at: at(func(s *EVMServer) *string { return &s.Endpoint })},
		{hcl: "ws_endpoint", kind: text, trim: true, filled: true, at: at(func(s *EVMServer) *string { return &s.WSEndpoint })},
		{hcl: "enabled", kind: flag, def: "true", at: at(func(s *EVMServer) *bool { return &s.Enabled })},
		{hcl: "headers", kind: labels, at: at(func(s *EVMServer) *map[string]string { return &s.Headers })},
		{hcl: "labels", kind: labels, at: at(func(s *EVMServer) *map[string]string { return &s.Labels })},
		{hcl: "priority", kind: count, def: "0", at: at(func(s *EVMServer) *uint32 { return &s.Priority })},
		{hcl: "weight", kind: count, min: 1, max: 1000, def: "1", at: at(func(s *EVMServer) *uint32 { return &s.Weight })},
		{hcl: "earliest_block", kind: count, max: maxChainID, def: "0", at: at(func(s *EVMServer) *uint64 { return &s.EarliestBlock })},
	},
}

var evmHealthSchema = &schema{
	fresh: func() any { return &EVMHealth{} },
	check: checkEVMHealth,
	fields: []field{
		{hcl: "soft_lag", kind: count, def: "3", at: at(func(h *EVMHealth) *uint64 { return &h.SoftLag })},
		{hcl: "hard_lag", kind: count, def: "8", at: at(func(h *EVMHealth) *uint64 { return &h.HardLag })},
		{hcl: "lag_grace", kind: millis, max: maxMillis, def: "20s", at: at(func(h *EVMHealth) *time.Duration { return &h.LagGrace })},
		{hcl: "readmit", kind: millis, max: maxMillis, def: "5s", at: at(func(h *EVMHealth) *time.Duration { return &h.Readmit })},
		{hcl: "min_healthy", kind: count, max: maxCount, def: "1", at: at(func(h *EVMHealth) *int { return &h.MinHealthy })},
		{hcl: "interval", kind: millis, min: 10, max: maxMillis, def: "1s", at: at(func(h *EVMHealth) *time.Duration { return &h.Interval })},
		{hcl: "timeout", kind: millis, min: 10, max: maxMillis, def: "2s", at: at(func(h *EVMHealth) *time.Duration { return &h.Timeout })},
		{hcl: "subscribe", kind: flag, def: "true", at: at(func(h *EVMHealth) *bool { return &h.Subscribe })},
		{hcl: "agree", kind: flag, def: "true", at: at(func(h *EVMHealth) *bool { return &h.Agree })},
	},
}

var evmReferenceSchema = &schema{
	fresh: func() any { return &EVMReference{} },
	check: checkEVMReference,
	fields: []field{
		{hcl: "url", kind: text, trim: true, filled: true, required: inHCL, at: at(func(r *EVMReference) *string { return &r.URL })},
		{hcl: "method", kind: text, filled: true, def: "eth_blockNumber", at: at(func(r *EVMReference) *string { return &r.Method })},
		{hcl: "headers", kind: labels, at: at(func(r *EVMReference) *map[string]string { return &r.Headers })},
		{hcl: "interval", kind: millis, min: 100, max: maxMillis, def: "45s", at: at(func(r *EVMReference) *time.Duration { return &r.Interval })},
		{hcl: "max_lag", kind: count, def: "5", at: at(func(r *EVMReference) *uint64 { return &r.MaxLag })},
	},
}

var evmWebSocketSchema = &schema{
	fresh: func() any { return &EVMWebSocket{} },
	fields: []field{
		{hcl: "heartbeat", kind: millis, min: 10, max: maxMillis, def: "30s", at: at(func(w *EVMWebSocket) *time.Duration { return &w.Heartbeat })},
		{hcl: "health_poll", kind: millis, min: 1, max: maxMillis, def: "1s", at: at(func(w *EVMWebSocket) *time.Duration { return &w.HealthPoll })},
		{hcl: "on_rotate", kind: enum, values: []string{"move", "close"}, def: "move", at: at(func(w *EVMWebSocket) *OnRotate { return &w.OnRotate })},
		{hcl: "max_message", kind: size, min: 1024, max: maxSize, def: "32MiB", at: at(func(w *EVMWebSocket) *int64 { return &w.MaxMessage })},
	},
}

var evmLimitsSchema = &schema{
	fresh: func() any { return &EVMLimits{} },
	fields: []field{
		{hcl: "max_connections", kind: count, min: 1, max: maxCount, def: "10000", at: at(func(l *EVMLimits) *int { return &l.MaxConnections })},
		{hcl: "max_body", kind: size, min: 1024, max: 1 << 30, def: "10MiB", at: at(func(l *EVMLimits) *int64 { return &l.MaxBody })},
		{hcl: "max_batch", kind: count, max: maxCount, def: "1000", at: at(func(l *EVMLimits) *int { return &l.MaxBatch })},
		{hcl: "get_logs", kind: count, min: 1, max: maxCount, def: "75", at: at(func(l *EVMLimits) *int { return &l.GetLogs })},
		{hcl: "rate", kind: count, max: maxCount, def: "0", at: at(func(l *EVMLimits) *int { return &l.Rate })},
		{hcl: "burst", kind: count, max: maxCount, def: "0", at: at(func(l *EVMLimits) *int { return &l.Burst })},
		{hcl: "request_timeout", kind: millis, min: 10, max: maxMillis, def: "30s", at: at(func(l *EVMLimits) *time.Duration { return &l.RequestTimeout })},
		{hcl: "header_timeout", kind: millis, min: 10, max: maxMillis, def: "1m", at: at(func(l *EVMLimits) *time.Duration { return &l.HeaderTimeout })},
		{hcl: "idle_timeout", kind: millis, min: 10, max: maxMillis, def: "75s", at: at(func(l *EVMLimits) *time.Duration { return &l.IdleTimeout })},
	},
}

var evmManagementSchema = &schema{
	fresh: func() any { return &EVMManagement{} },
	check: func(d *decoder, target any) {
		m := target.(*EVMManagement)
		checkBind(d, m, &m.Address)
	},
	fields: []field{
		{hcl: "address", kind: text, required: inHCL, at: at(func(m *EVMManagement) *string { return &m.Address })},
	},
}

// checkBind puts an address in its one form.
func checkBind(d *decoder, target any, address *string) {
	if !d.given(target, "address") || d.broken(target, "address") {
		return
	}
	b, err := parseBind(*address)
	if err != nil {
		d.complain(target, "address", err.Error(), `"host:port" is expected, such as "127.0.0.1:8545"`)
		return
	}
	*address = b.String()
}

func checkEVM(d *decoder, target any) {
	l := target.(*evmDraft)
	checkLabel(d, l, l.Name)
	checkBind(d, l, &l.Address)
	if l.Policy != nil && l.Routing == RouteFreshest {
		d.complain(l, "policy", "has nothing to choose with routing = \"freshest\"", "each body goes to the freshest node; leave policy out, or use routing = \"block\"")
	}
	if d.broken(l, "server") {
		return
	}
	enabled := slices.DeleteFunc(slices.Clone(l.Servers), func(s *EVMServer) bool { return !s.Enabled })
	switch {
	case len(l.Servers) == 0:
		d.complain(l, "server", "is missing", `at least one block, server "name" { endpoint = "http://host:port" }, is expected`)
	case len(enabled) == 0:
		d.complain(l, "server", "has no entry that is enabled", "at least one enabled server is needed")
	}
	names, endpoints := map[string]bool{}, map[string]*EVMServer{}
	for _, s := range l.Servers {
		if names[s.Name] {
			d.complain(s, "name", fmt.Sprintf("%s is the name of another server, too", quote(s.Name)), "logs and metrics tell servers apart by their names")
		}
		names[s.Name] = true
		if first := endpoints[s.Endpoint]; first != nil && s.Endpoint != "" {
			d.complain(s, "endpoint", fmt.Sprintf("%s is that of server %s, too", quote(s.Endpoint), quote(first.Name)), "each endpoint may be given once")
		}
		endpoints[s.Endpoint] = s
	}
	if l.ChainID == nil && !d.given(l, "chain_id") {
		d.advise(l, "chain_id", "is not given, so most of the servers decide which chain this is", "pin it, so that servers of another chain are not used")
	}
}

func checkEVMServer(d *decoder, target any) {
	s := target.(*EVMServer)
	checkURL(d, s, "endpoint", s.Endpoint, "http", "https")
	if s.WSEndpoint != NoWebSocket {
		checkURL(d, s, "ws_endpoint", s.WSEndpoint, "ws", "wss")
	}
	checkHeaders(d, s, s.Headers)
}

// checkURL wants an absolute URL of one of two schemes.
func checkURL(d *decoder, target any, key, written string, plain, secure string) {
	if written == "" || d.broken(target, key) {
		return
	}
	u, err := url.Parse(written)
	if err != nil || u.Host == "" || u.Hostname() == "" || u.Scheme != plain && u.Scheme != secure || u.Fragment != "" {
		d.complain(target, key, "is "+quote(written)+", which is no URL of a node", fmt.Sprintf(`a URL such as "%s://host:8545" or "%s://host/path" is expected`, plain, secure))
	}
}

func checkHeaders(d *decoder, target any, headers map[string]string) {
	for key, value := range headers {
		if key == "" || strings.ContainsAny(key, " :\r\n\t") || strings.ContainsAny(value, "\r\n") {
			d.complain(target, "headers", "has "+quote(key)+", which is no header", `{ Authorization = "..." } is expected`)
		}
	}
}

func checkEVMHealth(d *decoder, target any) {
	h := target.(*EVMHealth)
	if h.HardLag <= h.SoftLag && !d.broken(h, "hard_lag") && !d.broken(h, "soft_lag") {
		d.complain(h, "hard_lag", fmt.Sprintf("is %d, which is within the soft_lag of %d", h.HardLag, h.SoftLag), "give more blocks than soft_lag has")
	}
}

func checkEVMReference(d *decoder, target any) {
	r := target.(*EVMReference)
	checkURL(d, r, "url", r.URL, "http", "https")
	checkHeaders(d, r, r.Headers)
}
