package config

import (
	"strings"
	"time"
)

// EVM is one client-facing port for EVM JSON-RPC, over HTTP and WebSocket, with
// its own fleet.
type EVM struct {
	// Name is the label in metrics, logs and paths.
	Name string
	// Address is host:port to bind.
	Address string
	// ChainID is the chain that servers must be on (eth_chainId); nil takes
	// the one that most of them name.
	ChainID *uint64
	Servers []*EVMServer
	Routing EVMRouting
	// HoldWait is how long a call waits for a node that has its block, instead
	// of being refused; 0 refuses at once. Routing by block only.
	HoldWait time.Duration
	Health   EVMHealth
	// Reference is nil when off.
	Reference *EVMReference
	WebSocket EVMWebSocket
	Limits    EVMLimits
	// Management is the port of erigon_proxy's management API; nil when off.
	Management *EVMManagement
	// Drain is how long clients are still served after SIGTERM while the probe
	// says 503, so that a load balancer stops sending any.
	Drain time.Duration
	// TLS is nil for a plaintext port.
	TLS *TLS
	// Policy is nil for the built-in way of spreading load. Routing by block
	// only.
	Policy *Policy
}

// EVMRouting is how a call finds its node.
type EVMRouting string

// The ways of routing.
const (
	// RouteByBlock reads the calls: each goes to a node that has its block, load
	// is spread over the freshest nodes, and the head never goes back.
	RouteByBlock EVMRouting = "block"
	// RouteFreshest sends whole bodies as they are to the freshest node, the
	// fastest among equals, as erigon_proxy does.
	RouteFreshest EVMRouting = "freshest"
)

// EVMServer is one node as the file names it.
type EVMServer struct {
	Name string
	// Endpoint is the http or https URL of the file.
	Endpoint string
	// WSEndpoint is the ws or wss URL as it is written; empty for that of
	// Endpoint, NoWebSocket for none. WebSocketURL resolves it.
	WSEndpoint string
	Enabled    bool
	// Headers are sent with each request to the node.
	Headers map[string]string
	// Labels are for policies.
	Labels map[string]string
	// Priority: lower wins among nodes that are equally fresh.
	Priority uint32
	// Weight is the share of the load among equals, at least 1.
	Weight uint32
	// EarliestBlock is the first block of the node's history.
	EarliestBlock uint64
}

// NoWebSocket as a WSEndpoint means that the node has no WebSocket.
const NoWebSocket = "none"

// WebSocketURL is the ws or wss URL of the node; empty when it has none.
func (s *EVMServer) WebSocketURL() string {
	switch s.WSEndpoint {
	case NoWebSocket:
		return ""
	case "":
		return "ws" + strings.TrimPrefix(s.Endpoint, "http")
	}
	return s.WSEndpoint
}

// EVMHealth are the settings of the health band (seed 004 "Health band").
type EVMHealth struct {
	// SoftLag and HardLag are blocks behind the tip.
	SoftLag, HardLag uint64
	LagGrace         time.Duration
	Readmit          time.Duration
	MinHealthy       int
	Interval         time.Duration
	Timeout          time.Duration
	// Subscribe follows newHeads where a node has WebSocket; polling goes on
	// beside it, at Interval.
	Subscribe bool
	// Agree sets nodes aside that report what no other node does.
	Agree bool
}

// EVMReference is a provider outside of the fleet that is asked now and then
// how high the chain is. It is a witness: no call of a client goes there.
type EVMReference struct {
	URL      string
	Method   string
	Headers  map[string]string
	Interval time.Duration
	// MaxLag is how many blocks behind it the fleet counts as lagging.
	MaxLag uint64
}

// EVMWebSocket are the settings of client WebSockets.
type EVMWebSocket struct {
	Heartbeat time.Duration
	// HealthPoll is how often a session looks whether its node is still healthy.
	HealthPoll time.Duration
	OnRotate   OnRotate
	// MaxMessage caps one message of either side, in bytes.
	MaxMessage int64
}

// OnRotate is what becomes of a WebSocket whose node leaves the pool.
type OnRotate string

// What can become of it.
const (
	RotateClose OnRotate = "close"
	RotateMove  OnRotate = "move"
)

// EVMLimits bound what clients may do.
type EVMLimits struct {
	MaxConnections int
	// MaxBody is the largest request body, in bytes.
	MaxBody int64
	// MaxBatch is the most calls of a batch; 0 is no limit.
	MaxBatch int
	// GetLogs is how many eth_getLogs may be with the nodes at once.
	GetLogs int
	// Rate is how many calls a second one client address may make, Burst how
	// many at once; a Rate of 0 is no limit.
	Rate, Burst int
	// RequestTimeout bounds one attempt at one node.
	RequestTimeout time.Duration
	// HeaderTimeout bounds how long a client may take to send a request.
	HeaderTimeout time.Duration
	// IdleTimeout closes client connections that send nothing.
	IdleTimeout time.Duration
}

// EVMManagement is the port of the management API.
type EVMManagement struct {
	// Address is host:port.
	Address string
}
