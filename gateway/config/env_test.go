package config

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"
)

// variables are the four that are required.
var variables = map[string]string{"INSTANCES": "10.0.0.1, 10.0.0.2", "REFERENCE_ADDR": "ref.example:8443", "SERVER_KEY": "k&y", "BIND_ADDR": "0.0.0.0"}

// fromEnv reads the required variables with changes; a value of "-" unsets.
func fromEnv(over map[string]string) (*EVM, []string, error) {
	env := maps.Clone(variables)
	maps.Copy(env, over)
	cfg, warnings, err := FromEnv(func(name string) string {
		if env[name] == "-" {
			return ""
		}
		return env[name]
	})
	if err != nil {
		return nil, nil, err
	}
	return cfg.EVM[0], warnings, nil
}

func TestFromEnvDefaults(t *testing.T) {
	l, warnings, err := fromEnv(nil)
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	want := EVMHealth{SoftLag: 3, HardLag: 8, LagGrace: 20 * time.Second, Readmit: 5 * time.Second, MinHealthy: 1, Interval: time.Second, Timeout: 2 * time.Second}
	if l.Health != want {
		t.Errorf("health is %+v", l.Health)
	}
	if l.Address != "0.0.0.0:8545" || l.Management.Address != "127.0.0.1:8081" || l.Drain != 40*time.Second || l.Routing != RouteFreshest {
		t.Errorf("%+v", l)
	}
	if l.Reference.URL != "https://ref.example:8443/ogrpc?dkey=k%26y&network=ethereum" || l.Reference.Interval != 45*time.Second || l.Reference.MaxLag != 5 {
		t.Errorf("the reference is %+v", l.Reference)
	}
	if l.Limits.GetLogs != 75 || l.Limits.MaxBody != 10<<20 || l.WebSocket.Heartbeat != 30*time.Second || l.WebSocket.HealthPoll != 5*time.Second || l.WebSocket.OnRotate != RotateClose {
		t.Errorf("%+v %+v", l.Limits, l.WebSocket)
	}
	if len(l.Servers) != 2 || l.Servers[1].Endpoint != "http://10.0.0.2:8545" || l.Servers[1].WebSocketURL() != "ws://10.0.0.2:8545" {
		t.Errorf("%+v", l.Servers)
	}
}

func TestFromEnvValues(t *testing.T) {
	l, _, err := fromEnv(map[string]string{"HEALTH_CHECK_INTERVAL": "0.25", "READMIT_SECONDS": "0", "INSTANCES": "::1,[::2],::1", "WS_HEALTH_POLL_SECONDS": "1.5"})
	if err != nil {
		t.Fatal(err)
	}
	if l.Health.Interval != 250*time.Millisecond || l.Health.Readmit != 0 || l.WebSocket.HealthPoll != 1500*time.Millisecond {
		t.Errorf("%+v %+v", l.Health, l.WebSocket)
	}
	if len(l.Servers) != 2 || l.Servers[0].Endpoint != "http://[::1]:8545" || l.Servers[1].Endpoint != "http://[::2]:8545" {
		t.Errorf("%+v", l.Servers)
	}
}

// Every variable that is wrong is named, and all of them at once.
func TestFromEnvRefuses(t *testing.T) {
	for _, c := range []struct{ name, value string }{
		{"INSTANCES", "-"}, {"REFERENCE_ADDR", "-"}, {"SERVER_KEY", "-"}, {"BIND_ADDR", "-"},
		{"INSTANCES", "http://10.0.0.1"}, {"INSTANCES", ","}, {"REFERENCE_ADDR", "https://ref.example/"}, {"BIND_ADDR", "a b"},
		{"SOFT_LAG_MAX", "three"}, {"SOFT_LAG_MAX", "-1"}, {"HARD_LAG_IMMEDIATE", "1.5"}, {"LAG_GRACE_SECONDS", "x"}, {"READMIT_SECONDS", "-1"},
		{"READMIT_SECONDS", "NaN"}, {"MIN_HEALTHY_FLOOR", "x"}, {"MAX_FLEET_LAG", "x"}, {"HEALTH_CHECK_INTERVAL", "fast"},
		{"HEALTH_CHECK_INTERVAL", "0"}, {"HEALTH_CHECK_TIMEOUT", "1.5"}, {"HEALTH_CHECK_TIMEOUT", "0"}, {"REFERENCE_CHECK_INTERVAL", "0"},
		{"ETH_GETLOGS_LIMIT", "many"}, {"ETH_GETLOGS_LIMIT", "0"}, {"SHUTDOWN_DRAIN_SECONDS", "x"},
		{"WS_HEARTBEAT_SECONDS", "350"}, {"WS_HEARTBEAT_SECONDS", "0"}, {"WS_HEARTBEAT_SECONDS", "-1"}, {"WS_HEALTH_POLL_SECONDS", "0"},
	} {
		if _, _, err := fromEnv(map[string]string{c.name: c.value}); err == nil || !strings.Contains(err.Error(), c.name) {
			t.Errorf("%s=%s: %v", c.name, c.value, err)
		}
	}
	_, _, err := fromEnv(map[string]string{"SERVER_KEY": "-", "SOFT_LAG_MAX": "x"})
	if err == nil || !strings.Contains(err.Error(), "SERVER_KEY") || !strings.Contains(err.Error(), "SOFT_LAG_MAX") {
		t.Errorf("only the first is told: %v", err)
	}
}

func TestFromEnvWarnsOfTheHeartbeat(t *testing.T) {
	for value, want := range map[string]int{"175": 0, "175.5": 1, "349": 1} {
		_, warnings, err := fromEnv(map[string]string{"WS_HEARTBEAT_SECONDS": value})
		if err != nil || len(warnings) != want {
			t.Errorf("%s: %v %v", value, err, warnings)
		}
	}
}

// What the environment says and what HCL says after the conversion are one.
func TestFromEnvConverts(t *testing.T) {
	env := maps.Clone(variables)
	env["READMIT_SECONDS"], env["ETH_GETLOGS_LIMIT"], env["WS_HEARTBEAT_SECONDS"] = "0.5", "7", "12"
	cfg, _, err := FromEnv(func(name string) string { return env[name] })
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := Parse("x.hcl", FormatHCL(cfg))
	if err != nil {
		t.Fatal(err)
	}
	again.Path = cfg.Path
	if !reflect.DeepEqual(cfg, again) {
		t.Fatalf("%+v\n%+v", cfg.EVM[0], again.EVM[0])
	}
}
