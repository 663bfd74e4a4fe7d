package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"flotilla/gateway/config"
	"flotilla/gateway/fleet"
	"flotilla/gateway/probe"
	"flotilla/gateway/ship"
	"flotilla/gateway/tlsfiles"

	"github.com/spf13/cobra"
)

// newConfigTestCommand is "flotilla config test": it validates a configuration
// and asks each of its servers.
func newConfigTestCommand() *cobra.Command {
	var strict bool
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Validate a configuration and ask its servers",
		Long: "Validate a configuration, then ask every enabled server: for SHiP for its ABI and status, for EVM\n" +
			"for its chain, head and version, and for newHeads over its WebSocket.\n\n" +
			"The exit code is 1 when the configuration is not valid, or when no server of a listener answers.\n" +
			"With --strict it is 1 also when a server does not answer or is on another chain, when an archive\n" +
			"reports another range than it declares, when blocks are missing between archives and live nodes,\n" +
			"when archived blocks have no archive with an api_endpoint although there is a chain_api, when an EVM\n" +
			"server is hard_lag behind or ahead of the others or has a ws_endpoint that does not work, and when a\n" +
			"reference does not answer or is max_lag ahead.",
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			out := cmd.OutOrStdout()
			cfg, warnings, err := config.Load(args[0])
			if err != nil {
				printWarnings(out, warnings)
				return err
			}
			expired, err := loadCertificates(cfg)
			if err != nil {
				return fmt.Errorf("the configuration %s is not valid: %w", args[0], err)
			}
			fmt.Fprintf(out, "%s %s\n", args[0], newPainter(out).green("is valid."))
			printWarnings(out, warnings)
			for _, text := range expired {
				fmt.Fprintf(out, "%s %s\n", newPainter(out).yellow("warning:"), text)
			}
			report := probe.All(cmd.Context(), cfg, tlsfiles.NewTrust(), progress(cmd.ErrOrStderr()))
			if err := cmd.Context().Err(); err != nil {
				return fmt.Errorf("the test was interrupted: %w", err)
			}
			return judge(out, report, strict)
		},
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "fail also when one server is not as it should be")
	return cmd
}

// loadCertificates loads what the client ports present, as run does, and
// returns what is to be warned of.
func loadCertificates(cfg *config.Config) ([]string, error) {
	var warnings []string
	load := func(name string, files *config.TLS) error {
		if files == nil {
			return nil
		}
		certificates, err := tlsfiles.Load(files)
		if err != nil {
			return fmt.Errorf("listener %q: tls: %w", name, err)
		}
		for _, text := range certificates.Warnings() {
			warnings = append(warnings, fmt.Sprintf("listener %q: %s", name, text))
		}
		return nil
	}
	for _, l := range cfg.Listeners {
		if err := load(l.Name, l.TLS); err != nil {
			return nil, err
		}
	}
	for _, l := range cfg.EVM {
		if err := load(l.Name, l.TLS); err != nil {
			return nil, err
		}
	}
	return warnings, nil
}

// progress counts on one line of a terminal, and is nil elsewhere.
func progress(w io.Writer) func(count, total int) {
	if !isTerminal(w) {
		return nil
	}
	return func(count, total int) {
		end := ""
		if count == total {
			end = "\r\x1b[K"
		}
		fmt.Fprintf(w, "\r%d of %d servers asked%s", count, total, end)
	}
}

// tested is what the probes of one listener gave, whatever its protocol.
type tested interface {
	Label() string
	// Dead reports whether servers were asked, and none has answered.
	Dead() bool
	// Faults are what a strict test fails for.
	Faults() []string
	Answered() (answered, probed int)
}

// judge prints what the probes gave and decides.
func judge(out io.Writer, report *probe.Report, strict bool) error {
	paint := newPainter(out)
	var dead []string
	faults, answered, probed := 0, 0, 0
	decide := func(l tested) {
		if l.Dead() {
			dead = append(dead, strconv.Quote(l.Label()))
		}
		for _, fault := range l.Faults() {
			fmt.Fprintf(out, "  %s %s\n", paint.red("fault:"), fault)
			faults++
		}
		a, p := l.Answered()
		answered, probed = answered+a, probed+p
	}
	for _, l := range report.Listeners {
		printListener(out, l)
		decide(l)
	}
	for _, l := range report.EVM {
		printEVM(out, l)
		decide(l)
	}
	fmt.Fprintf(out, "\n%d of %d servers answered.\n", answered, probed)
	switch {
	case len(dead) > 0:
		return fmt.Errorf("no server of the listener %s answered", strings.Join(dead, ", "))
	case strict && faults == 1:
		return fmt.Errorf("the strict test found 1 fault, see above")
	case strict && faults > 0:
		return fmt.Errorf("the strict test found %d faults, see above", faults)
	}
	return nil
}

func printListener(out io.Writer, l *probe.Listener) {
	fmt.Fprintf(out, "\nListener %q on %s\n", l.Name, l.Address)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  server\trole\tendpoint\thead\tLIB\ttrace\tchain_state\tfinality\tABI\tchain\tresult")
	for _, s := range l.Servers {
		fmt.Fprintf(table, "  %s\n", strings.Join(row(s), "\t"))
	}
	// Errors of the output show up when the closing line is written, too.
	_ = table.Flush()
	if l.Stitched() {
		printCoverage(out, l)
	}
	if l.ChainAPI != nil {
		printChainAPI(out, l)
	}
}

// printChainAPI lists who answers on the chain API of a listener.
func printChainAPI(out io.Writer, l *probe.Listener) {
	fmt.Fprintf(out, "  Chain API on %s\n", l.ChainAPI.Address)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range l.Servers {
		if !s.Enabled {
			continue
		}
		api := s.APIEndpoint
		if api == "" {
			api = "-"
		}
		fmt.Fprintf(table, "    %s\t%s\t%s\n", oneLine(s.Name), s.Role, oneLine(api))
	}
	// Errors of the output show up when the closing line is written, too.
	_ = table.Flush()
}

// row is the cells of one server.
func row(s *probe.Server) []string {
	endpoint := s.Endpoint
	if s.URL == "" {
		endpoint = "-"
	}
	cells := []string{oneLine(s.Name), string(s.Role), config.MaskUser(oneLine(endpoint))}
	switch {
	case !s.Enabled:
		return append(cells, "-", "-", "-", "-", "-", "-", "-", "disabled, not asked")
	case !s.Probed:
		return append(cells, "-", "-", "-", "-", "-", "-", "-", "no endpoint, not asked")
	}
	fingerprint := "-"
	if s.ABI != nil {
		fingerprint = s.ABI.Fingerprint
	}
	if s.Err != nil {
		return append(cells, "-", "-", "-", "-", "-", fingerprint, "-", oneLine(s.Err.Error()))
	}
	result := "ok"
	switch {
	case s.Chain == probe.ChainWrong:
		result = "wrong chain " + s.Status.ChainID.String()
	case !s.Reported():
		result = "ok, but no block yet"
	case !s.ABI.Compatible():
		result = "ok, but the ABI is of another protocol version"
	}
	number := func(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
	single := func(r ship.Range) string { return probe.RangesText([]ship.Range{r}) }
	return append(cells, number(s.Status.Head.Num), number(s.Status.LIB.Num),
		single(s.Status.Trace), single(s.Status.ChainState), single(s.Status.Finality), fingerprint, string(s.Chain), result)
}

func printCoverage(out io.Writer, l *probe.Listener) {
	fmt.Fprintln(out, "  Coverage")
	for _, log := range fleet.Logs {
		fmt.Fprintf(out, "    %-12s %s\n", log, probe.RangesText(l.Coverage[log].Ranges))
	}
	fmt.Fprintf(out, "    %-12s %s\n", "holes", probe.RangesText(l.Coverage.Holes()))
	for _, s := range l.Servers {
		if !s.Enabled {
			continue
		}
		r := s.Ranges()
		fmt.Fprintf(out, "    %-16s %-6s %-8s trace %s chain_state %s finality %s\n", oneLine(s.Name), s.Role, r.Source,
			probe.RangesText([]ship.Range{r.Trace}), probe.RangesText([]ship.Range{r.ChainState}), probe.RangesText([]ship.Range{r.Finality}))
	}
}
