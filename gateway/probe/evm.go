package probe

import (
	"context"
	"fmt"
	"net"

	"flotilla/gateway/config"
	"flotilla/gateway/evm"
	"flotilla/gateway/evm/health"
	"flotilla/gateway/evm/upstream"
)

// EVMServer is what the probe of one server for EVM JSON-RPC gave.
type EVMServer struct {
	*config.EVMServer
	evm.Told
	// Err is why it failed; nil when it told its chain and its head.
	Err error
	// Match is how its chain compares with that of the listener.
	Match Chain
	// Lag is how many blocks it is behind the tip.
	Lag uint64
	// Doubtful is true for a height that a running gateway would not believe.
	Doubtful bool
}

// EVM is what the probes of one listener for EVM JSON-RPC gave.
type EVM struct {
	*config.EVM
	// Servers are in the order of the configuration.
	Servers []*EVMServer
	// Tip is the highest block that is believed of those on the right chain.
	Tip uint64
	// Witness is the height of the reference, and WitnessErr why there is none.
	// Both are zero without a reference.
	Witness    uint64
	WitnessErr error
}

// newEVM makes the report of a listener, and the probes that fill it.
func newEVM(ctx context.Context, l *config.EVM, trust upstream.Trust) (report *EVM, probes []func()) {
	report = &EVM{EVM: l}
	network := &net.Dialer{}
	for _, server := range l.Servers {
		s := &EVMServer{EVMServer: server, Match: ChainUnknown}
		report.Servers = append(report.Servers, s)
		if s.Enabled {
			probes = append(probes, func() { s.Told, s.Err = evm.Ask(ctx, server, l.Health.Timeout, network, trust) })
		}
	}
	if l.Reference != nil {
		probes = append(probes, func() {
			report.Witness, report.WitnessErr = evm.AskReference(l.Reference, l.Health.Timeout, network, trust)
		})
	}
	return report, probes
}

// answers reports whether the server was asked and has answered.
func (s *EVMServer) answers() bool { return s.Enabled && s.Err == nil }

// compare looks at what the servers told together, as a running gateway would.
func (l *EVM) compare() {
	right := l.chain()
	var band []*EVMServer
	for _, s := range l.Servers {
		switch {
		case !s.answers():
		case s.Chain == right:
			s.Match = ChainMatch
			band = append(band, s)
		default:
			s.Match = ChainWrong
		}
	}
	for _, s := range band {
		w := health.Witness{}
		if l.EVM.Reference != nil && l.WitnessErr == nil {
			w.Reference = &l.Witness
		}
		for _, o := range band {
			if o != s {
				w.Others = append(w.Others, o.Head)
			}
		}
		s.Doubtful = l.Health.Agree && w.Doubtful(s.Head, max(l.Health.HardLag, 1))
		if !s.Doubtful {
			l.Tip = max(l.Tip, s.Head)
		}
	}
	for _, s := range band {
		s.Lag = l.Tip - min(l.Tip, s.Head)
	}
}

// chain is the one that servers must be on: that of the configuration, or of
// most servers, of the first among equals.
func (l *EVM) chain() (right uint64) {
	if l.ChainID != nil {
		return *l.ChainID
	}
	votes := map[uint64]int{}
	for _, s := range l.Servers {
		if s.answers() {
			votes[s.Chain]++
		}
	}
	for _, s := range l.Servers {
		if s.answers() && votes[s.Chain] > votes[right] {
			right = s.Chain
		}
	}
	return right
}

// Label is the listener's name.
func (l *EVM) Label() string { return l.Name }

// Dead reports whether none of the servers answered.
func (l *EVM) Dead() bool {
	answered, _ := l.Answered()
	return answered == 0
}

// Answered counts the servers that were asked, and those of them that answered.
func (l *EVM) Answered() (answered, probed int) {
	for _, s := range l.Servers {
		if s.Enabled {
			probed++
		}
		if s.answers() {
			answered++
		}
	}
	return answered, probed
}

// Faults are what a strict test fails for, in words.
func (l *EVM) Faults() (out []string) {
	for _, s := range l.Servers {
		if fault := l.fault(s); fault != "" {
			out = append(out, fmt.Sprintf("server %q %s", s.Name, fault))
		}
	}
	switch r := l.EVM.Reference; {
	case r == nil:
	case l.WitnessErr != nil:
		out = append(out, "the reference did not answer")
	case l.Tip > 0 && l.Witness >= l.Tip+max(r.MaxLag, 1):
		out = append(out, fmt.Sprintf("the servers are %d blocks behind the reference", l.Witness-l.Tip))
	}
	return out
}

func (l *EVM) fault(s *EVMServer) string {
	switch {
	case !s.Enabled:
		return ""
	case s.Err != nil:
		return "did not answer"
	case s.Match == ChainWrong:
		return fmt.Sprintf("is on the chain %d, not on %d", s.Chain, l.chain())
	case s.Doubtful:
		return fmt.Sprintf("reports block %d, which nobody else comes near", s.Head)
	case s.Lag >= max(l.Health.HardLag, 1):
		return fmt.Sprintf("is %d blocks behind the others", s.Lag)
	case s.WSEndpoint != "" && s.WebSocketURL() != "" && s.WebSocket != nil:
		return "has a ws_endpoint that does not work"
	}
	return ""
}
