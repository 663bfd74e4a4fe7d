package main

import (
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"flotilla/gateway/probe"
)

func printEVM(out io.Writer, l *probe.EVM) {
	fmt.Fprintf(out, "\nListener %q on %s\n", l.Name, l.Address)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  server\tendpoint\tchain\thead\tbehind\tms\tWebSocket\tversion\tresult")
	for _, s := range l.Servers {
		fmt.Fprintf(table, "  %s\n", strings.Join(evmRow(s), "\t"))
	}
	// Errors of the output show up when the closing line is written, too.
	_ = table.Flush()
	switch {
	case l.EVM.Reference == nil:
	case l.WitnessErr != nil:
		fmt.Fprintf(out, "  reference: %s\n", oneLine(l.WitnessErr.Error()))
	default:
		fmt.Fprintf(out, "  reference: block %d\n", l.Witness)
	}
}

// evmRow is the cells of one server.
func evmRow(s *probe.EVMServer) []string {
	cells := []string{oneLine(s.Name), oneLine(withoutPath(s.Endpoint))}
	switch {
	case !s.Enabled:
		return append(cells, "-", "-", "-", "-", "-", "-", "disabled, not asked")
	case s.Err != nil:
		return append(cells, "-", "-", "-", "-", "-", "-", oneLine(s.Err.Error()))
	}
	result := "ok"
	switch {
	case s.Match == probe.ChainWrong:
		result = fmt.Sprintf("wrong chain %d", s.Chain)
	case s.Doubtful:
		result = "not to be believed"
	}
	socket := "ok"
	switch {
	case s.WebSocketURL() == "":
		socket = "none"
	case s.WebSocket != nil && s.WSEndpoint == "":
		// Nobody has said that there is one.
		socket = "no"
	case s.WebSocket != nil:
		socket = oneLine(s.WebSocket.Error())
	}
	version := s.Version
	if version == "" {
		version = "-"
	}
	number := func(n uint64) string { return strconv.FormatUint(n, 10) }
	return append(cells, number(s.Chain), number(s.Head), number(s.Lag),
		strconv.FormatFloat(float64(s.Latency)/float64(time.Millisecond), 'f', 1, 64), socket, oneLine(version), result)
}

// withoutPath is an endpoint without what may be a key of a provider.
func withoutPath(endpoint string) string {
	u, err := url.Parse(endpoint)
	if err != nil {
		return "-"
	}
	return u.Scheme + "://" + u.Host
}
