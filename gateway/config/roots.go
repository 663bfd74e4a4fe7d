package config

import (
	"strings"
	"time"
)

const maxPort = 65535

// portFields are an address in a JSON file.
func portFields[T any](host func(*T) *string, port func(*T) *uint64) []field {
	return []field{
		{json: "listen_address", kind: text, trim: true, filled: true, nullable: true, at: at(host)},
		{json: "listen_port", kind: count, min: 1, max: maxPort, required: inJSON, at: at(port)},
	}
}

// addressForeign are the names of fleet-router for what address holds.
var addressForeign = []string{"listen_address", "listen_port", "metrics_address", "metrics_port"}

func listenerOfDraft(v any) any    { return &v.(*draft).Listener }
func draftOfDocument(v any) any    { return &v.(*document).top }
func listenerOfDocument(v any) any { return &v.(*document).top.Listener }

// only leaves fields their name in one language.
func only(lang language, fields []field) []field {
	out := concat(fields)
	for i := range out {
		if lang != inHCL {
			out[i].hcl = ""
		}
		if lang != inJSON {
			out[i].json = ""
		}
	}
	return out
}

// nullable lets fields be null in JSON.
func nullable(fields []field) []field {
	out := concat(fields)
	for i := range out {
		out[i].nullable = true
	}
	return out
}

var listenerSchema = &schema{
	noun:   "listener",
	fresh:  func() any { return &draft{} },
	accept: acceptListener,
	check:  checkListener,
	fields: concat(
		[]field{
			{hcl: "protocol", kind: text, at: at(func(l *draft) *string { return &l.protocol })},
			{hcl: "name", json: "name", kind: text, trim: true, filled: true, required: inBoth,
				at: at(func(l *draft) *string { return &l.Name })},
			{hcl: "address", foreign: addressForeign, kind: text, required: inHCL,
				at: at(func(l *draft) *string { return &l.Address })},
		},
		portFields(func(l *draft) *string { return &l.host }, func(l *draft) *uint64 { return &l.port }),
		lift(nullable(capFields), listenerOfDraft),
		lift(only(inHCL, paceFields), listenerOfDraft),
		lift(poolFields, listenerOfDraft),
		[]field{apiField, policyField, stageField},
	),
}

var listenersField = field{hcl: "listener", json: "listeners", kind: objects, sub: listenerSchema,
	labels: []string{"protocol", "name"}, example: `listener "ship" "name" { ... }`,
	open: func(parent any) any {
		doc, l := parent.(*document), &draft{}
		doc.listeners = append(doc.listeners, l)
		return l
	},
	inherit: func(parent, child any) {
		top, l := &parent.(*document).top, child.(*draft)
		for i := range settings {
			copyField(&settings[i], &l.Listener, &top.Listener)
		}
		l.TLS = top.TLS
		// A wrong one is complained about once, at the top.
		if host := strings.Trim(top.host, "[]"); isBindHost(host) {
			l.host = host
		}
	},
	variant: variantOf,
	children: func(parent any) []any {
		doc := parent.(*document)
		return append(present(doc.listeners...), present(doc.evm...)...)
	},
}

var graceField = field{hcl: "shutdown_grace", json: "shutdown_grace_ms", kind: millis, max: maxMillis, clamp: true, def: "5s",
	at: at(func(doc *document) *time.Duration { return &doc.config.ShutdownGrace })}

// hclRoot is the top of an HCL configuration.
var hclRoot = &schema{
	fresh: func() any { return &document{} },
	fields: []field{
		graceField,
		{hcl: "admin", kind: object, sub: adminSchema,
			open: func(parent any) any {
				doc := parent.(*document)
				doc.config.Admin = &Admin{}
				return doc.config.Admin
			},
			children: func(parent any) []any { return present(parent.(*document).config.Admin) }},
		{hcl: "defaults", kind: object, sub: defaultsSchema, embedded: true,
			open:     draftOfDocument,
			children: func(parent any) []any { return []any{&parent.(*document).top} }},
		listenersField,
	},
}

var defaultsSchema = &schema{
	fresh:  func() any { return &draft{} },
	check:  checkPace,
	fields: lift(settings, listenerOfDraft),
}

var adminSchema = &schema{
	fresh: func() any { return &Admin{} },
	check: checkAdmin,
	fields: []field{
		{hcl: "address", foreign: addressForeign, kind: text, required: inHCL,
			at: at(func(a *Admin) *string { return &a.Address })},
		{hcl: "dashboard", kind: object, sub: dashboardSchema,
			open: func(parent any) any {
				a := parent.(*Admin)
				a.Dashboard = &Dashboard{}
				return a.Dashboard
			},
			children: func(parent any) []any { return present(parent.(*Admin).Dashboard) }},
	},
}

// jsonRoot is the top of a fleet-router file.
var jsonRoot = &schema{
	fields: concat(
		[]field{
			{json: "listen_address", kind: text, trim: true, at: at(func(doc *document) *string { return &doc.top.host })},
			{json: "listen_port", kind: count, max: maxPort, at: at(func(doc *document) *uint64 { return &doc.top.port })},
		},
		lift(settings, listenerOfDocument),
		lift(poolFields, listenerOfDocument),
		lift([]field{apiField}, draftOfDocument),
		[]field{
			graceField,
			{json: "metrics_port", kind: count, min: 1, max: maxPort, nullable: true,
				at: at(func(doc *document) *uint64 { return &doc.adminPort })},
			{json: "metrics_address", kind: text, trim: true, nullable: true,
				at: at(func(doc *document) *string { return &doc.adminHost })},
			{json: "dashboard", kind: object, sub: dashboardSchema,
				open: func(parent any) any {
					doc := parent.(*document)
					doc.dashboard = &Dashboard{}
					return doc.dashboard
				}},
			listenersField,
		},
	),
}

var dashboardSchema = &schema{
	fresh: func() any { return &Dashboard{} },
	check: checkDashboard,
	fields: []field{
		{hcl: "enabled", json: "enabled", kind: flag, def: "true", jsonDef: "false",
			at: at(func(b *Dashboard) *bool { return &b.Enabled })},
		{hcl: "control_token", json: "control_token", kind: text, trim: true, nullable: true,
			at: at(func(b *Dashboard) *string { return &b.ControlToken })},
		{hcl: "control_token_file", json: "control_token_file", kind: text, filled: true, nullable: true,
			at: at(func(b *Dashboard) *string { return &b.ControlTokenFile })},
		{hcl: "allowed_hosts", json: "allowed_hosts", kind: texts,
			at: at(func(b *Dashboard) *[]string { return &b.AllowedHosts })},
	},
}

const maxCount = 1_000_000

var apiSchema = &schema{
	fresh: func() any { return &apiDraft{} },
	check: checkAPI,
	fields: concat(
		[]field{{hcl: "address", foreign: addressForeign, kind: text, required: inHCL,
			at: at(func(a *apiDraft) *string { return &a.Address })}},
		portFields(func(a *apiDraft) *string { return &a.host }, func(a *apiDraft) *uint64 { return &a.port }),
		[]field{
			{hcl: "allow", json: "allow", kind: enums, values: []string{"block", "info", "state", "exec", "push"}, def: "block info state",
				at: at(func(a *apiDraft) *[]string { return &a.Allow })},
			{hcl: "block_source", json: "block_source", kind: enum, values: []string{"frozen_first", "live_first"}, def: "frozen_first",
				at: at(func(a *apiDraft) *string { return &a.BlockSource })},
			{hcl: "push_servers", json: "push_servers", kind: texts,
				at: at(func(a *apiDraft) *[]string { return &a.PushServers })},
			{hcl: "max_body", json: "max_body_bytes", kind: size, min: 1024, max: 67108864, def: "2MiB",
				at: at(func(a *apiDraft) *int64 { return &a.MaxBody })},
			{hcl: "max_response", json: "max_response_bytes", kind: size, min: 65536, zero: true, max: maxSize, clamp: true, def: "0B",
				at: at(func(a *apiDraft) *int64 { return &a.MaxResponse })},
			{hcl: "max_connections", json: "max_connections", kind: count, min: 1, max: maxCount, def: "1024",
				at: at(func(a *apiDraft) *int { return &a.MaxConnections })},
			{hcl: "max_in_flight", json: "max_in_flight", kind: count, min: 1, max: maxCount, def: "256",
				at: at(func(a *apiDraft) *int { return &a.MaxInFlight })},
			{hcl: "max_in_flight_per_upstream", json: "max_in_flight_per_upstream", kind: count, min: 1, max: maxCount, def: "64",
				at: at(func(a *apiDraft) *int { return &a.MaxInFlightPerUpstream })},
			{hcl: "upstream_queue", json: "upstream_queue_ms", kind: millis, max: maxMillis, clamp: true, def: "1s",
				at: at(func(a *apiDraft) *time.Duration { return &a.UpstreamQueue })},
			{hcl: "upstream_timeout", json: "upstream_timeout_ms", kind: millis, min: 100, max: maxMillis, clamp: true, def: "10s",
				at: at(func(a *apiDraft) *time.Duration { return &a.UpstreamTimeout })},
			{hcl: "request_deadline", json: "request_deadline_ms", kind: millis, max: maxMillis, clamp: true, def: "30s",
				at: at(func(a *apiDraft) *time.Duration { return &a.RequestDeadline })},
			{hcl: "max_attempts", json: "max_attempts", kind: count, min: 1, max: 8, def: "3",
				at: at(func(a *apiDraft) *uint32 { return &a.MaxAttempts })},
			{hcl: "probe", json: "probe_ms", kind: millis, min: 100, max: 60_000, def: "1s",
				at: at(func(a *apiDraft) *time.Duration { return &a.Probe })},
			{hcl: "busy_statuses", json: "busy_statuses", kind: enums, values: []string{"429", "500", "502", "504"},
				at: at(func(a *apiDraft) *[]string { return &a.BusyStatuses })},
			{hcl: "hedge_percent", json: "hedge_percent", kind: count, max: 100, def: "0",
				at: at(func(a *apiDraft) *int { return &a.HedgePercent })},
			{hcl: "cache", json: "cache_bytes", kind: size, min: 1 << 20, zero: true, max: maxSize, clamp: true, def: "0B",
				at: at(func(a *apiDraft) *int64 { return &a.Cache })},
			{hcl: "cors", json: "cors", kind: object, nullable: true, sub: corsSchema,
				open: func(parent any) any {
					a := parent.(*apiDraft)
					a.CORS = &CORS{}
					return a.CORS
				},
				children: func(parent any) []any { return present(parent.(*apiDraft).CORS) }},
			tlsField(func(parent any) **TLS { return &parent.(*apiDraft).TLS }),
		},
	),
}

var corsSchema = &schema{
	fresh: func() any { return &CORS{} },
	check: checkCORS,
	fields: []field{
		{hcl: "allow_origin", json: "allow_origin", kind: text, filled: true, required: inBoth,
			at: at(func(c *CORS) *string { return &c.AllowOrigin })},
		{hcl: "allow_headers", json: "allow_headers", kind: text, filled: true, nullable: true,
			at: at(func(c *CORS) *string { return &c.AllowHeaders })},
		{hcl: "max_age", json: "max_age", kind: seconds, max: maxMillis, clamp: true, nullable: true,
			at: at(func(c *CORS) **time.Duration { return &c.MaxAge })},
		{hcl: "allow_credentials", json: "allow_credentials", kind: flag, def: "false",
			at: at(func(c *CORS) *bool { return &c.AllowCredentials })},
	},
}
