package config

import "time"

// document is what the schemas of both languages fill.
type document struct {
	config Config
	// top holds what every listener inherits: the fields at the top of a JSON
	// file, whose listener it is in single mode, or the defaults block.
	top draft
	// listeners are those of their own.
	listeners []*draft
	// evm are the EVM listeners.
	evm []*evmDraft
	// What a JSON file says of the admin port.
	adminHost string
	adminPort uint64
	dashboard *Dashboard
}

// draft is a listener before its checks.
type draft struct {
	Listener
	// protocol is the first label of an HCL block.
	protocol string
	// host and port are the address in a JSON file.
	host string
	port uint64
	api  *apiDraft
}

// apiDraft is a chain API before its checks.
type apiDraft struct {
	ChainAPI
	host string
	port uint64
}

// capFields may be set at the top and for each listener, in both languages.
var capFields = []field{
	{hcl: "max_connections", json: "max_connections", kind: count, min: 1, max: 1_000_000, def: "10000",
		at: at(func(l *Listener) *int { return &l.MaxConnections })},
}

// paceFields are process-wide in JSON; in HCL each listener may have its own.
var paceFields = []field{
	{hcl: "upstream_reconnect", json: "upstream_reconnect_ms", kind: millis, min: 1, max: maxMillis, clamp: true, def: "3s", required: inJSON,
		at: at(func(l *Listener) *time.Duration { return &l.Reconnect })},
	{hcl: "upstream_monitoring", json: "upstream_monitoring_ms", kind: millis, min: 1, max: maxMillis, clamp: true, def: "5s", required: inJSON,
		at: at(func(l *Listener) *time.Duration { return &l.Monitoring })},
	{hcl: "upstream_status", json: "upstream_status_ms", kind: millis, min: 1, max: maxMillis, clamp: true, def: "5s", required: inJSON,
		at: at(func(l *Listener) *time.Duration { return &l.Status })},
	{hcl: "handshake_timeout", json: "handshake_timeout_ms", kind: millis, max: maxMillis, clamp: true, def: "10s",
		at: at(func(l *Listener) *time.Duration { return &l.HandshakeTimeout })},
	{hcl: "idle_timeout", json: "idle_timeout_ms", kind: millis, max: maxMillis, clamp: true, def: "0s",
		at: at(func(l *Listener) *time.Duration { return &l.IdleTimeout })},
	{hcl: "upstream_liveness_timeout", json: "upstream_liveness_timeout_ms", kind: millis, max: maxMillis, clamp: true, def: "4s",
		at: at(func(l *Listener) *time.Duration { return &l.LivenessTimeout })},
	{hcl: "upstream_stall_timeout", json: "upstream_stall_timeout_ms", kind: millis, min: 1000, zero: true, max: maxMillis, clamp: true, def: "1m",
		at: at(func(l *Listener) *time.Duration { return &l.StallTimeout })},
	{hcl: "live_lag_blocks", json: "live_lag_blocks", kind: count, def: "1200",
		at: at(func(l *Listener) *uint32 { return &l.LiveLagBlocks })},
	{hcl: "max_message", json: "max_message_bytes", kind: size, min: 1, max: maxSize, clamp: true, def: "256MiB",
		at: at(func(l *Listener) *int64 { return &l.MaxMessage })},
	{hcl: "max_client_message", json: "max_client_message_bytes", kind: size, min: 1, max: maxSize, clamp: true, def: "64KiB",
		at: at(func(l *Listener) *int64 { return &l.MaxClientMessage })},
	{hcl: "hold_wait", json: "hold_wait_ms", kind: millis, max: maxMillis, clamp: true, def: "30s", jsonDef: "0s",
		at: at(func(l *Listener) *time.Duration { return &l.HoldWait })},
	{hcl: "client_buffer", json: "client_buffer_bytes", kind: size, max: maxSize, clamp: true, def: "16MiB",
		at: at(func(l *Listener) *int64 { return &l.ClientBuffer })},
	{hcl: "slow_client_timeout", json: "slow_client_timeout_ms", kind: millis, max: maxMillis, clamp: true, def: "1m",
		at: at(func(l *Listener) *time.Duration { return &l.SlowClientTimeout })},
}

// settings are all that a defaults block may hold.
var settings = concat(capFields, paceFields)

// tlsField is the certificate of a client port.
func tlsField(of func(parent any) **TLS) field {
	return field{hcl: "tls", json: "tls", kind: object, nullable: true, sub: tlsSchema,
		open: func(parent any) any {
			t := &tlsDraft{}
			*of(parent) = &t.TLS
			return t
		},
		children: func(parent any) []any {
			t := *of(parent)
			if t == nil {
				return nil
			}
			draft := &tlsDraft{TLS: *t}
			for _, entry := range t.SNI {
				draft.entries = append(draft.entries, &entry)
			}
			return []any{draft}
		},
	}
}

// poolFields belong to one listener and are not inherited.
var poolFields = []field{
	{hcl: "chain_id", json: "chain_id", kind: chain, nullable: true,
		at: at(func(l *Listener) **[32]byte { return &l.ChainID })},
	{hcl: "require_chain_id", json: "require_chain_id", kind: flag, def: "false",
		at: at(func(l *Listener) *bool { return &l.RequireChainID })},
	{hcl: "topology", json: "topology", kind: enum, values: []string{"auto", "pool", "stitched"}, def: "auto",
		at: at(func(l *Listener) *Topology { return &l.Topology })},
	{hcl: "quarantine", json: "block_failure_quarantine", kind: object, nullable: true, sub: quarantineSchema,
		open: func(parent any) any {
			l := parent.(*Listener)
			l.Quarantine = &Quarantine{}
			return l.Quarantine
		},
		children: func(parent any) []any { return present(parent.(*Listener).Quarantine) }},
	{hcl: "stitching", json: "stitching", kind: object, nullable: true, sub: stitchingSchema, embedded: true,
		open:     func(parent any) any { return &parent.(*Listener).Stitching },
		children: func(parent any) []any { return []any{&parent.(*Listener).Stitching} }},
	tlsField(func(parent any) **TLS { return &parent.(*Listener).TLS }),
	{hcl: "server", json: "servers", kind: objects, sub: serverSchema, labels: []string{"name"}, example: `server "name" { ... }`,
		open: func(parent any) any {
			l, s := parent.(*Listener), &Server{}
			l.Servers = append(l.Servers, s)
			return s
		},
		children: func(parent any) []any { return present(parent.(*Listener).Servers...) }},
}

// apiField needs the draft, for the address.
var apiField = field{hcl: "chain_api", json: "chain_api", kind: object, nullable: true, sub: apiSchema,
	open: func(parent any) any {
		l := parent.(*draft)
		l.api = &apiDraft{}
		return l.api
	},
	children: func(parent any) []any { return present(parent.(*draft).api) },
}

var quarantineSchema = &schema{
	fresh: func() any { return &Quarantine{} },
	fields: []field{
		{hcl: "strikes", json: "strikes", kind: count, min: 1, def: "2",
			at: at(func(q *Quarantine) *uint32 { return &q.Strikes })},
		{hcl: "window", json: "window_secs", kind: seconds, min: 1, max: maxMillis, clamp: true, def: "5m",
			at: at(func(q *Quarantine) *time.Duration { return &q.Window })},
		{hcl: "ttl", json: "ttl_secs", kind: seconds, min: 1, max: maxMillis, clamp: true, def: "10m",
			at: at(func(q *Quarantine) *time.Duration { return &q.TTL })},
		{hcl: "range", json: "range", kind: count, min: 1, def: "1",
			at: at(func(q *Quarantine) *uint32 { return &q.Range })},
	},
}

var stitchingSchema = &schema{
	fresh: func() any { return &Stitching{} },
	check: checkStitching,
	fields: []field{
		{hcl: "history_preference", json: "history_preference", kind: enum, values: []string{"frozen", "any"}, def: "frozen",
			at: at(func(s *Stitching) *string { return &s.HistoryPreference })},
		{hcl: "predial_blocks", json: "predial_blocks", kind: count, def: "2000",
			at: at(func(s *Stitching) *uint32 { return &s.PredialBlocks })},
		{hcl: "gap_wait", json: "gap_wait_ms", kind: millis, min: 1, max: 3_600_000, def: "30s",
			at: at(func(s *Stitching) *time.Duration { return &s.GapWait })},
		{hcl: "patch_head_lib", json: "patch_head_lib", kind: flag, def: "true",
			at: at(func(s *Stitching) *bool { return &s.PatchHeadLIB })},
		{hcl: "abi_file", json: "abi_file", kind: text, filled: true, nullable: true,
			at: at(func(s *Stitching) *string { return &s.ABIFile })},
		{hcl: "abi_mismatch", json: "abi_mismatch", kind: enum, values: []string{"warn", "exclude"}, def: "warn",
			at: at(func(s *Stitching) *string { return &s.ABIMismatch })},
	},
}

var serverSchema = &schema{
	noun:  "server",
	fresh: func() any { return &Server{} },
	check: checkServer,
	fields: []field{
		{hcl: "name", json: "name", kind: text, required: inBoth,
			at: at(func(s *Server) *string { return &s.Name })},
		{hcl: "endpoint", json: "endpoint", kind: text,
			at: at(func(s *Server) *string { return &s.Endpoint })},
		{hcl: "enabled", json: "enabled", kind: flag, def: "true", required: inJSON,
			at: at(func(s *Server) *bool { return &s.Enabled })},
		{hcl: "role", json: "role", kind: enum, values: []string{"live", "frozen"}, def: "live",
			at: at(func(s *Server) *Role { return &s.Role })},
		{hcl: "range", json: "range", kind: object, nullable: true, inline: true, sub: rangeSchema,
			open: func(parent any) any {
				s := parent.(*Server)
				s.Range = &Range{}
				return s.Range
			},
			children: func(parent any) []any { return present(parent.(*Server).Range) }},
		{hcl: "max_sessions", json: "max_sessions", kind: count, min: 1, nullable: true,
			at: at(func(s *Server) *int { return &s.MaxSessions })},
		{hcl: "priority", json: "priority", kind: count, def: "0",
			at: at(func(s *Server) *uint32 { return &s.Priority })},
		{hcl: "weight", json: "weight", kind: count, min: 1, def: "1",
			at: at(func(s *Server) *uint32 { return &s.Weight })},
		{hcl: "api_endpoint", json: "api_endpoint", alias: "http_endpoint", foreign: []string{"http_endpoint"}, kind: text, nullable: true,
			at: at(func(s *Server) *string { return &s.APIEndpoint })},
		{hcl: "labels", kind: labels,
			at: at(func(s *Server) *map[string]string { return &s.Labels })},
	},
}

var rangeSchema = &schema{
	fresh: func() any { return &Range{} },
	fields: []field{
		{hcl: "begin", json: "begin", kind: count, required: inBoth,
			at: at(func(r *Range) *uint32 { return &r.Begin })},
		{hcl: "end", json: "end", kind: count, required: inBoth,
			at: at(func(r *Range) *uint32 { return &r.End })},
	},
}

// tlsDraft is a TLS before its checks, which gather the entries.
type tlsDraft struct {
	TLS
	entries []*SNI
}

var tlsSchema = &schema{
	fresh: func() any { return &tlsDraft{} },
	check: checkTLS,
	fields: []field{
		{hcl: "cert_file", json: "cert_file", kind: text, filled: true, required: inBoth,
			at: at(func(t *tlsDraft) *string { return &t.CertFile })},
		{hcl: "key_file", json: "key_file", kind: text, filled: true, required: inBoth,
			at: at(func(t *tlsDraft) *string { return &t.KeyFile })},
		{hcl: "sni", json: "sni", kind: objects, sub: sniSchema, example: `sni { ... }`,
			open: func(parent any) any {
				t, entry := parent.(*tlsDraft), &SNI{}
				t.entries = append(t.entries, entry)
				return entry
			},
			children: func(parent any) []any { return present(parent.(*tlsDraft).entries...) }},
	},
}

var sniSchema = &schema{
	fresh: func() any { return &SNI{} },
	check: checkSNI,
	fields: []field{
		{hcl: "server_names", json: "server_names", kind: texts, required: inBoth,
			at: at(func(s *SNI) *[]string { return &s.ServerNames })},
		{hcl: "cert_file", json: "cert_file", kind: text, filled: true, required: inBoth,
			at: at(func(s *SNI) *string { return &s.CertFile })},
		{hcl: "key_file", json: "key_file", kind: text, filled: true, required: inBoth,
			at: at(func(s *SNI) *string { return &s.KeyFile })},
	},
}

func concat(lists ...[]field) []field {
	var out []field
	for _, l := range lists {
		out = append(out, l...)
	}
	return out
}

// present is the pointers that are not nil.
func present[T any](list ...*T) []any {
	var out []any
	for _, p := range list {
		if p != nil {
			out = append(out, p)
		}
	}
	return out
}
