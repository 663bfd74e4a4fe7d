package config

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		written string
		want    uint64
	}{{"0B", 0}, {"1B", 1}, {"64KiB", 64 << 10}, {"256 MiB", 256 << 20}, {"1GiB", 1 << 30}, {"5KB", 5000}, {"2MB", 2e6}, {"3GB", 3e9}} {
		if got, ok := parseSize(c.written); !ok || got != c.want {
			t.Errorf("%q gives %d, %v; want %d", c.written, got, ok, c.want)
		}
	}
	for _, wrong := range []string{"", "B", "5", "-1B", "1.5MiB", "99999999999999999GiB", "5 kib", "5KiBs"} {
		if got, ok := parseSize(wrong); ok {
			t.Errorf("%q gives %d, want a refusal", wrong, got)
		}
	}
	for _, v := range []uint64{0, 1, 1000, 1024, 65536, 1<<20 + 1, 256 << 20, 3 << 30, maxSize} {
		if got, ok := parseSize(sizeText(v)); !ok || got != v {
			t.Errorf("%d is written %s, which is read as %d", v, sizeText(v), got)
		}
	}
}

func TestTimeText(t *testing.T) {
	for _, c := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0s"}, {time.Millisecond, "1ms"}, {1500 * time.Millisecond, "1.5s"}, {10 * time.Second, "10s"}, {time.Minute, "1m"},
		{70 * time.Second, "1m10s"}, {time.Hour, "1h"}, {10 * time.Hour, "10h"}, {time.Hour + 5*time.Second, "1h0m5s"}, {90 * time.Minute, "1h30m"},
	} {
		back, err := time.ParseDuration(c.want)
		if got := timeText(c.d); got != c.want || err != nil || back != c.d {
			t.Errorf("%d is written %q, want %q (which is %v, %v)", c.d, got, c.want, back, err)
		}
	}
}

func TestLargeJSONAmountsAreClamped(t *testing.T) {
	cfg, _, err := Parse("config.json", []byte(jsonWith(
		`"upstream_reconnect_ms": 18446744073709551615`, `"max_message_bytes": 18446744073709551615`,
		`"block_failure_quarantine": {"ttl_secs": 18446744073709551615}`)))
	if err != nil {
		t.Fatal(err)
	}
	l := cfg.Listeners[0]
	if l.Reconnect != 365*24*time.Hour || l.MaxMessage != 1<<40 || l.Quarantine.TTL != 365*24*time.Hour {
		t.Errorf("got %v, %d and %v", l.Reconnect, l.MaxMessage, l.Quarantine.TTL)
	}
	if l.Reconnect*32 < 0 || l.MaxMessage > math.MaxInt64/2 {
		t.Error("sums of the largest amounts overflow")
	}
}

func TestJSONDefaults(t *testing.T) {
	cfg, warnings, err := Parse("config.json", []byte(jsonWith(`"metrics_port": 9090`, `"block_failure_quarantine": {}`, `"tls": null`)))
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	l := cfg.Listeners[0]
	for _, c := range []struct {
		what      string
		got, want any
	}{
		{"single", cfg.Single, true},
		{"name", l.Name, "default"},
		{"address", l.Address, "127.0.0.1:17000"},
		{"admin", cfg.Admin.Address, "127.0.0.1:9090"},
		{"grace", cfg.ShutdownGrace, 5 * time.Second},
		{"cap", l.MaxConnections, 10000},
		{"handshake", l.HandshakeTimeout, 10 * time.Second},
		{"idle", l.IdleTimeout, time.Duration(0)},
		{"liveness", l.LivenessTimeout, 4 * time.Second},
		{"stall", l.StallTimeout, time.Minute},
		{"lag", l.LiveLagBlocks, uint32(1200)},
		{"message", l.MaxMessage, int64(256 << 20)},
		{"client message", l.MaxClientMessage, int64(64 << 10)},
		{"hold", l.HoldWait, time.Duration(0)},
		{"buffer", l.ClientBuffer, int64(16 << 20)},
		{"slow client", l.SlowClientTimeout, time.Minute},
		{"quarantine", *l.Quarantine, Quarantine{2, 5 * time.Minute, 10 * time.Minute, 1}},
		{"topology", l.Topology, TopologyAuto},
		{"stitching", l.Stitching, Stitching{HistoryPreference: "frozen", PredialBlocks: 2000, GapWait: 30 * time.Second, PatchHeadLIB: true, ABIMismatch: "warn"}},
		{"tls", l.TLS == nil, true},
		{"server", *l.Servers[0], Server{Name: "a", Endpoint: "127.0.0.1:18080", URL: "ws://127.0.0.1:18080/", Enabled: true, Role: Live, Weight: 1}},
	} {
		if !reflect.DeepEqual(c.got, c.want) {
			t.Errorf("%s is %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestJSONInheritance(t *testing.T) {
	cfg, _, err := Parse("config.json", []byte(many(
		`[`+listener("x", "17000", `, "max_connections": 5, "listen_address": "[::1]"`)+`, `+listener("y", "17001", `, "listen_address": null, "max_connections": null`)+`]`,
		`"listen_address"`, `"max_connections": 9`, `"idle_timeout_ms": 7`, `"metrics_port": 9090`, `"metrics_address": " "`, `"topology": "auto"`, `"require_chain_id": false`, `"listen_port": 0`)))
	if err != nil {
		t.Fatal(err)
	}
	x, y := cfg.Listeners[0], cfg.Listeners[1]
	if x.Address != "[::1]:17000" || y.Address != "0.0.0.0:17001" || cfg.Admin.Address != "[::1]:9090" {
		t.Errorf("addresses are %s, %s and %s", x.Address, y.Address, cfg.Admin.Address)
	}
	if x.MaxConnections != 5 || y.MaxConnections != 9 || x.IdleTimeout != 7*time.Millisecond || y.IdleTimeout != 7*time.Millisecond {
		t.Errorf("limits are %d, %d, %v and %v", x.MaxConnections, y.MaxConnections, x.IdleTimeout, y.IdleTimeout)
	}
	cfg, _, err = Parse("config.json", []byte(many(`[`+listener("x", "17000", "")+`]`, `"listen_address": "[::2]"`)))
	if err != nil || cfg.Listeners[0].Address != "[::2]:17000" {
		t.Errorf("got %v, %v", cfg, err)
	}
	if cfg.Single {
		t.Error("a file with listeners counts as single")
	}
}

func TestDefaultsAreValid(t *testing.T) {
	// A bad default would panic here.
	for _, s := range []*schema{jsonRoot, hclRoot, listenerSchema, serverSchema, tlsSchema, sniSchema, apiSchema, corsSchema, adminSchema, dashboardSchema, quarantineSchema} {
		for _, f := range s.fields {
			for _, lang := range []language{inHCL, inJSON} {
				f.defaultValue(lang)
			}
			if f.hcl == "" && f.json == "" {
				t.Error("a field has no name")
			}
			if f.hcl != strings.ToLower(f.hcl) || f.json != strings.ToLower(f.json) {
				t.Errorf("%s is not lower case", f.key())
			}
		}
	}
}
