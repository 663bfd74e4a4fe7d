// Package config reads what an operator wrote, HCL or a fleet-router JSON
// file, and turns it into one validated Config. Nothing is bound, dialed or
// started here.
//
// A Config is a value: it is built, validated and then only read. A reload
// builds another one and compares.
package config

import "time"

// Config is one complete, validated configuration of the process.
type Config struct {
	// Path is the file or folder that was read, as it was given.
	Path string
	// Single is true for a fleet-router file without "listeners": its one
	// listener has no name in metrics and readiness texts.
	Single bool
	// Admin is the port for health, readiness and metrics; nil when off.
	Admin *Admin
	// Listeners are the client ports for SHiP, in file order. There is at least
	// one port of either kind.
	Listeners []*Listener
	// EVM are the client ports for EVM JSON-RPC, in file order.
	EVM []*EVM
	// ShutdownGrace bounds the drain after SIGTERM; 0 exits at once.
	ShutdownGrace time.Duration
}

// Admin is the plain-HTTP port of spec "observability" section 1.
type Admin struct {
	// Address is host:port.
	Address string
	// Dashboard is nil when the file has none. It turns on what is below /api/v1;
	// this version has no web page.
	Dashboard *Dashboard
}

// Dashboard are the settings of the web page and of the control API (spec
// "config" 2.7).
type Dashboard struct {
	Enabled bool
	// ControlToken is the text itself, at least 16 bytes; empty when unset.
	ControlToken string
	// ControlTokenFile is a path that is read at start, empty when unset. Only
	// one of the two is set.
	ControlTokenFile string
	// AllowedHosts are lower-case host names without a port.
	AllowedHosts []string
}

// Listener is one client-facing SHiP port with its own fleet.
type Listener struct {
	// Name is the label in metrics, logs and paths; "default" when the file
	// names none (Config.Single).
	Name string
	// Address is host:port to bind.
	Address string
	// ChainID pins the chain; nil accepts the first one that a server reports.
	ChainID *[32]byte
	// RequireChainID keeps servers offline whose status names no chain.
	RequireChainID bool
	// Quarantine is nil when off.
	Quarantine *Quarantine
	// TLS is nil for a plaintext port.
	TLS *TLS
	// Topology is as written: auto, pool or stitched. Stitched() resolves it.
	Topology  Topology
	Stitching Stitching
	Servers   []*Server
	// Policy is nil for the built-in one, least_connections.
	Policy *Policy
	// Stages are those of its own, in file order.
	Stages []*Stage
	// ChainAPI is nil when off.
	ChainAPI *ChainAPI

	// MaxConnections caps client connections, 1 to 1000000.
	MaxConnections int
	// HandshakeTimeout limits the client handshake; 0 is no limit. See
	// ConnectTimeout for everything on the upstream side.
	HandshakeTimeout time.Duration
	// IdleTimeout ends clients without traffic; 0 is off.
	IdleTimeout time.Duration
	// LivenessTimeout ends links that send no byte, not even a pong; 0 is off.
	LivenessTimeout time.Duration
	// StallTimeout ends links that owe a block and do not send it; 0 is off.
	StallTimeout time.Duration
	// LiveLagBlocks is how far behind the fleet's head a live node may be and
	// still be chosen for blocks above its own head; 0 is off.
	LiveLagBlocks uint32
	// MaxMessage caps one upstream message and one upstream frame, in bytes.
	MaxMessage int64
	// MaxClientMessage caps one client message and one client frame, in bytes.
	MaxClientMessage int64
	// Reconnect is the base pause of a monitor between connects.
	Reconnect time.Duration
	// Monitoring is one staleness tick; twelve without progress are stale.
	Monitoring time.Duration
	// Status is the poll period of a monitor and the deadline of its reply.
	Status time.Duration
	// HoldWait is how long a pool session is held, instead of closed, while
	// no upstream can be had; 0 closes at once as fleet-router does.
	HoldWait time.Duration
	// ClientBuffer is how many bytes of results are kept for a client that
	// does not take them.
	ClientBuffer int64
	// SlowClientTimeout closes a client that takes nothing for so long; 0 is off.
	SlowClientTimeout time.Duration
}

// DefaultConnectTimeout stands in for a HandshakeTimeout of 0 wherever a
// limit is needed all the same (spec "ship", handshake_timeout_ms).
const DefaultConnectTimeout = 10 * time.Second

// ConnectTimeout is the limit of an upstream connect, of the wait for its ABI,
// of a request write and of a status wait.
func (l *Listener) ConnectTimeout() time.Duration {
	if l.HandshakeTimeout == 0 {
		return DefaultConnectTimeout
	}
	return l.HandshakeTimeout
}

// Stitched reports whether live nodes and archives are presented as one node.
func (l *Listener) Stitched() bool {
	if l.Topology != TopologyAuto {
		return l.Topology == TopologyStitched
	}
	for _, s := range l.Servers {
		if s.Enabled && s.Role == Frozen {
			return true
		}
	}
	return false
}

// Topology is how the servers of a listener relate.
type Topology string

// The topologies of spec "config" 2.5.
const (
	TopologyAuto     Topology = "auto"
	TopologyPool     Topology = "pool"
	TopologyStitched Topology = "stitched"
)

// Role tells a node at the tip from an archive.
type Role string

// The roles of spec "config" 2.3.
const (
	Live   Role = "live"
	Frozen Role = "frozen"
)

// Server is one upstream node as the file names it.
type Server struct {
	Name string
	// Endpoint is the text of the file, which is also the metric label.
	Endpoint string
	// URL is the dial target: ws or wss, host:port always with the port, path
	// and query; empty for a server without SHiP.
	URL string
	// APIEndpoint is host:port of the node's HTTP API; empty when none.
	APIEndpoint string
	Enabled     bool
	Role        Role
	// Range is the declared range of an archive; nil when not declared.
	Range *Range
	// MaxSessions caps client links; 0 is no cap.
	MaxSessions int
	// Priority: lower wins.
	Priority uint32
	// Weight is at least 1.
	Weight uint32
	// Labels are the operator's own, for policies; nil when there are none.
	Labels map[string]string
}

// Range is a half-open block range, Begin < End.
type Range struct{ Begin, End uint32 }

// Quarantine is when and for how long a server is not asked for a block range
// (spec "ship" F11).
type Quarantine struct {
	Strikes uint32
	Window  time.Duration
	TTL     time.Duration
	// Range is how many blocks from the failed one on.
	Range uint32
}

// Stitching are the settings of range-split fleets (spec "config" 2.5).
type Stitching struct {
	// HistoryPreference is "frozen" or "any".
	HistoryPreference string
	PredialBlocks     uint32
	GapWait           time.Duration
	PatchHeadLIB      bool
	// ABIFile is a path, empty when unset; ABI is its text as it was when the
	// configuration was loaded.
	ABIFile string
	ABI     string
	// ABIMismatch is "warn" or "exclude".
	ABIMismatch string
}

// TLS is what a client port presents (spec "config" 6).
type TLS struct {
	CertFile, KeyFile string
	SNI               []SNI
}

// SNI is one more certificate, for the host names that it lists: exact names
// or *.domain, lower case.
type SNI struct {
	ServerNames       []string
	CertFile, KeyFile string
}

// ChainAPI is the nodeos-compatible HTTP port of a listener (spec "config"
// 2.6).
type ChainAPI struct {
	// Address is host:port to bind.
	Address string
	// Allow lists request classes: block, info, state, exec, push.
	Allow []string
	// BlockSource is "frozen_first" or "live_first".
	BlockSource string
	// PushServers are names of servers of the same listener.
	PushServers []string
	// MaxBody and MaxResponse are bytes; a MaxResponse of 0 is no limit.
	MaxBody, MaxResponse                                int64
	MaxConnections, MaxInFlight, MaxInFlightPerUpstream int
	UpstreamQueue, UpstreamTimeout, RequestDeadline     time.Duration
	// MaxAttempts is 1 to 8.
	MaxAttempts uint32
	// Probe is the period of the health probes.
	Probe time.Duration
	// BusyStatuses are status codes beside 503 that mean that a node is busy.
	BusyStatuses []string
	// HedgePercent is for how many of 100 block and info reads a second node may
	// be asked when the first is slow; 0 is off.
	HedgePercent int
	// Cache bounds the memory for answers about irreversible blocks, in bytes; 0
	// is off.
	Cache int64
	// CORS is nil when off.
	CORS *CORS
	// TLS is nil for a plaintext port; it is the listener's when the file
	// gives none of its own.
	TLS *TLS
}

// CORS are the cross-origin headers of a chain API port.
type CORS struct {
	AllowOrigin string
	// AllowHeaders is empty when unset.
	AllowHeaders string
	// MaxAge is whole seconds, nil when unset.
	MaxAge           *time.Duration
	AllowCredentials bool
}
