// Package admin is the plain-HTTP port for operators: liveness, readiness,
// coverage and metrics (spec "observability" sections 1 to 3).
//
// It reads what the fleets publish and never changes anything.
package admin

import (
	"log/slog"
	"net/http"
	"time"

	"flotilla/chainapi"
	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/ship/session"
	"flotilla/policies"
	"flotilla/policies/choice"

	"github.com/prometheus/client_golang/prometheus"
)

// State is what the port tells about. It is never changed once it is handed
// out; each reload makes a new one.
type State struct {
	// Listeners are the ones that take new clients, in configuration order.
	Listeners []Listener
	// EVM are those for EVM JSON-RPC.
	EVM []EVM
	// Single leaves the listener's name out of metrics and texts
	// (config.Config.Single).
	Single bool
	// Revision counts applied configurations from 1 on.
	Revision uint64
	// ReloadOK is false while the newest configuration could not be applied;
	// ReloadError then says why. A process that has never reloaded is ok.
	ReloadOK    bool
	ReloadError string
	// Control is nil while there is no control API.
	Control *Control
	// Draining is true from the first moment of a shutdown on.
	Draining bool
}

// Listener is one client port and what is known about it.
type Listener struct {
	Config *config.Listener
	Fleet  *fleet.Fleet
	// Policy is the one that runs.
	Policy policies.Policy
	// Explain tells which servers a request would go to, and why. The request is
	// JSON, in words of the listener's protocols; the error is about that.
	Explain func(request []byte) (choice.Answer, error)
	// Certificates is nil for a plaintext port.
	Certificates Certificates
	// Sessions describes the clients.
	Sessions func() []session.Description
	// ChainAPI is nil for a listener without one.
	ChainAPI *chainapi.Port
	// ChainAPICertificates is nil for a plaintext chain API.
	ChainAPICertificates Certificates
}

// Certificates tells when the first certificate of a port expires, and whether
// those in use are those in the files.
type Certificates interface {
	NotAfter() time.Time
	UpToDate() bool
}

// listener is the one of that name, nil when there is none. That of a file
// which names none answers to "default".
func (s *State) listener(name string) *Listener {
	for i := range s.Listeners {
		if s.Listeners[i].Config.Name == name {
			return &s.Listeners[i]
		}
	}
	return nil
}

// Server answers the requests. It is safe for concurrent use.
type Server struct {
	state    func() *State
	log      *slog.Logger
	registry *prometheus.Registry
}

// New makes a server. It calls state once for each request; the result is
// never nil. Version and commit name the build in flotilla_build_info.
func New(state func() *State, version, commit string, log *slog.Logger) *Server {
	return &Server{state: state, log: log, registry: newRegistry(state, version, commit)}
}

// Handler is every route of the port. Limits on connections and time are those
// of Serve.
func (s *Server) Handler() http.Handler { return http.HandlerFunc(s.serve) }
