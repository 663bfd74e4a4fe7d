package config

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// EnvIdleTimeout is the idle time-out of the load balancer that erigon_proxy is
// made for. It is not to be set: the check of the heartbeat is only as good as
// it is (seed 004 "WebSocket").
const EnvIdleTimeout = 350 * time.Second

// Ports that the environment cannot change.
const (
	envPort       = "8545"
	envManagement = "127.0.0.1:8081"
)

// FromEnv makes a configuration out of erigon_proxy's environment variables,
// with its defaults. The error names every variable that is missing or wrong.
func FromEnv(getenv func(string) string) (*Config, []string, error) {
	e := envReader{getenv: getenv}
	l := &EVM{
		Name:    "erigon_proxy",
		Routing: RouteFreshest,
		Health: EVMHealth{
			SoftLag:    e.count("SOFT_LAG_MAX", 3, 0),
			HardLag:    e.count("HARD_LAG_IMMEDIATE", 8, 0),
			LagGrace:   e.seconds("LAG_GRACE_SECONDS", 20),
			Readmit:    e.seconds("READMIT_SECONDS", 5),
			MinHealthy: int(e.count("MIN_HEALTHY_FLOOR", 1, 0)),
			Interval:   e.period("HEALTH_CHECK_INTERVAL", 1),
			Timeout:    e.whole("HEALTH_CHECK_TIMEOUT", 2, 1),
		},
		WebSocket: EVMWebSocket{
			Heartbeat:  e.period("WS_HEARTBEAT_SECONDS", 30),
			HealthPoll: e.period("WS_HEALTH_POLL_SECONDS", 5),
			OnRotate:   RotateClose,
			MaxMessage: 256 << 20,
		},
		Limits: EVMLimits{
			MaxConnections: 100_000,
			MaxBody:        10 << 20,
			GetLogs:        int(e.count("ETH_GETLOGS_LIMIT", 75, 1)),
			RequestTimeout: 5 * time.Minute,
			HeaderTimeout:  time.Minute,
			IdleTimeout:    75 * time.Second,
		},
		Management: &EVMManagement{Address: envManagement},
		Drain:      e.whole("SHUTDOWN_DRAIN_SECONDS", 40, 0),
	}
	l.Servers = e.servers()
	l.Address = e.bind()
	l.Reference = e.reference()
	var warnings []string
	switch beat := l.WebSocket.Heartbeat; {
	case beat >= EnvIdleTimeout:
		e.wrong("WS_HEARTBEAT_SECONDS", fmt.Sprintf("is %gs: the heartbeat must be below the load balancer's idle time-out of %gs, or idle connections are cut", beat.Seconds(), EnvIdleTimeout.Seconds()))
	case beat > EnvIdleTimeout/2:
		warnings = append(warnings, fmt.Sprintf("the WebSocket heartbeat of %gs is above half of the load balancer's idle time-out of %gs: one lost ping and idle connections are cut", beat.Seconds(), EnvIdleTimeout.Seconds()))
	}
	if len(e.errs) > 0 {
		return nil, nil, fmt.Errorf("the environment is no configuration:\n%w", errors.Join(e.errs...))
	}
	return &Config{Path: "environment", EVM: []*EVM{l}, ShutdownGrace: 5 * time.Second}, warnings, nil
}

// envReader reads variables and gathers what is wrong with them.
type envReader struct {
	getenv func(string) string
	errs   []error
}

func (e *envReader) wrong(name, what string) {
	e.errs = append(e.errs, fmt.Errorf("  %s %s", name, what))
}

// required is a variable without a default.
func (e *envReader) required(name, meaning string) string {
	value := strings.TrimSpace(e.getenv(name))
	if value == "" {
		e.wrong(name, "is not set: "+meaning+" is expected")
	}
	return value
}

// count is a whole number of at least least.
func (e *envReader) count(name string, def, least uint64) uint64 {
	value := strings.TrimSpace(e.getenv(name))
	if value == "" {
		return def
	}
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil || n < least {
		e.wrong(name, fmt.Sprintf("is %s: a whole number from %d up is expected", quote(value), least))
		return def
	}
	return n
}

// whole is a whole number of seconds of at least least.
func (e *envReader) whole(name string, def, least uint64) time.Duration {
	return time.Duration(e.count(name, def, least)) * time.Second
}

// seconds is a number of seconds, with or without a fraction, kept to the
// millisecond.
func (e *envReader) seconds(name string, def float64) time.Duration {
	value := strings.TrimSpace(e.getenv(name))
	n := def
	if value != "" {
		var err error
		if n, err = strconv.ParseFloat(value, 64); err != nil || math.IsNaN(n) || n < 0 || n > 1e9 {
			e.wrong(name, fmt.Sprintf("is %s: a number of seconds is expected", quote(value)))
			n = def
		}
	}
	return time.Duration(n*1000) * time.Millisecond
}

// period is seconds, but not 0.
func (e *envReader) period(name string, def float64) time.Duration {
	d := e.seconds(name, def)
	if d == 0 {
		e.wrong(name, "must be above 0")
		return time.Duration(def * float64(time.Second))
	}
	return d
}

func (e *envReader) servers() (list []*EVMServer) {
	value := e.required("INSTANCES", "a list of the nodes' addresses, with commas between them,")
	seen := map[string]bool{}
	for address := range strings.SplitSeq(value, ",") {
		address = strings.TrimSpace(address)
		if address == "" || seen[address] {
			continue
		}
		seen[address] = true
		host := strings.Trim(address, "[]")
		if !isBindHost(host) {
			e.wrong("INSTANCES", fmt.Sprintf("has %s, which is neither an address nor a host name", quote(address)))
			continue
		}
		list = append(list, &EVMServer{
			Name:     address,
			Endpoint: "http://" + net.JoinHostPort(host, envPort),
			Enabled:  true,
			Weight:   1,
		})
	}
	if value != "" && len(list) == 0 && len(e.errs) == 0 {
		e.wrong("INSTANCES", "names no node")
	}
	return list
}

func (e *envReader) bind() string {
	host := strings.Trim(e.required("BIND_ADDR", "the address to listen on, such as 0.0.0.0,"), "[]")
	if host != "" && !isBindHost(host) {
		e.wrong("BIND_ADDR", fmt.Sprintf("is %s, which is neither an address nor a host name", quote(host)))
	}
	return net.JoinHostPort(host, envPort)
}

func (e *envReader) reference() *EVMReference {
	host := e.required("REFERENCE_ADDR", "the host of the reference provider")
	key := e.required("SERVER_KEY", "the reference provider's API key")
	query := url.Values{"network": {"ethereum"}, "dkey": {key}}
	u := url.URL{Scheme: "https", Host: host, Path: "/ogrpc", RawQuery: query.Encode()}
	if _, err := url.Parse(u.String()); err != nil || strings.ContainsAny(host, "/?#@ ") {
		e.wrong("REFERENCE_ADDR", fmt.Sprintf("is %s: a host is expected, with a port or without one", quote(host)))
	}
	return &EVMReference{
		URL:      u.String(),
		Method:   "eth_blockNumber",
		Interval: e.whole("REFERENCE_CHECK_INTERVAL", 45, 1),
		MaxLag:   e.count("MAX_FLEET_LAG", 5, 0),
	}
}
