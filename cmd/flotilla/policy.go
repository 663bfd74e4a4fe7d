package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"flotilla/chainapi"
	"flotilla/gateway/config"
	"flotilla/gateway/evm"
	"flotilla/policies/choice"
	"flotilla/policies/trial"
	"flotilla/stages/explain"

	"github.com/spf13/cobra"
)

func newPolicyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Try a policy's script, and ask a running gateway how it chooses",
		Args:  usageArgs(cobra.NoArgs),
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newPolicyTestCommand(), newPolicyExplainCommand())
	return cmd
}

func newPolicyTestCommand() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "test SCRIPT.lua",
		Short: "Run a script on described fleets, and print the order before and after",
		Long: `Run a script on described fleets and requests, and print the order of the servers before and after it.

--case names a file of cases, described in docs/policies.md; without it there are two of its own. The exit code is 1
when the script fails, or a case expects another order.`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error { return testPolicy(cmd.OutOrStdout(), args[0], file) },
	}
	cmd.Flags().StringVar(&file, "case", "", "an HCL file with the cases to run")
	return cmd
}

func testPolicy(out io.Writer, path, file string) error {
	text := []byte(trial.Example)
	if file != "" {
		var err error
		if text, err = os.ReadFile(file); err != nil {
			return err
		}
	}
	cases, err := trial.Cases(file, text)
	if err != nil {
		return err
	}
	script, err := trial.Load(path, out)
	if err != nil {
		return err
	}
	wrong := 0
	for i := range cases {
		c := &cases[i]
		r := script.Run(c)
		fmt.Fprintf(out, "case %q\n  before  %s\n  after   %s\n", c.Name, strings.Join(r.Before, ", "), strings.Join(r.After, ", "))
		if len(r.Dropped) > 0 {
			fmt.Fprintf(out, "  drops   %s\n", strings.Join(r.Dropped, ", "))
		}
		if r.Failed != "" {
			fmt.Fprintf(out, "  FAILED  %s\n", r.Failed)
		}
		if r.Failed == "" && !r.Right(c) {
			fmt.Fprintf(out, "  WRONG   %s was expected\n", strings.Join(c.Expect, ", "))
		}
		if !r.Right(c) {
			wrong++
		}
		fmt.Fprintf(out, "  took    %v\n", r.Took.Round(100*time.Nanosecond))
	}
	if wrong > 0 {
		return fmt.Errorf("%d of %d cases went wrong", wrong, len(cases))
	}
	return nil
}

func newPolicyExplainCommand() *cobra.Command {
	var listener, request, admin string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Ask a running gateway which servers it would choose, and why",
		Long: `Ask a running gateway which servers it would choose for a request, and why, step by step.

--request is JSON. For SHiP it is an object; its fields are ` + explain.Fields + `.
Without start_block it is a client that has just connected. An object with a path is a request to the chain API of the
listener; its fields are ` + chainapi.ImaginedFields + `. For EVM it is the JSON-RPC body, a call or a batch, or an
object with ` + evm.ImaginedFields + `. The admin port is the one of --config, unless --admin names another.`,
		Args: usageArgs(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if admin == "" || listener == "" {
				path, err := cmd.Flags().GetString("config")
				if err != nil {
					return err
				}
				cfg, _, err := config.Load(path)
				if err != nil {
					return err
				}
				if admin, listener, err = explained(cfg, admin, listener); err != nil {
					return err
				}
			}
			return explainPolicy(cmd.Context(), cmd.OutOrStdout(), admin, listener, request, asJSON)
		},
	}
	cmd.Flags().StringVar(&listener, "listener", "", "the listener; may be left out when there is one only")
	cmd.Flags().StringVar(&request, "request", "{}", "the request, as JSON")
	cmd.Flags().StringVar(&admin, "admin", "", "host:port of the admin port")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print the whole answer as JSON")
	return cmd
}

// explained fills in what the command line leaves to the configuration.
func explained(cfg *config.Config, admin, listener string) (string, string, error) {
	switch {
	case admin == "" && cfg.Admin == nil:
		return "", "", errors.New("the configuration has no admin port; give --admin host:port")
	case admin == "":
		admin = dialable(cfg.Admin.Address)
	}
	if listener == "" {
		var names []string
		for _, l := range cfg.Listeners {
			names = append(names, l.Name)
		}
		for _, l := range cfg.EVM {
			names = append(names, l.Name)
		}
		if len(names) != 1 {
			return "", "", usageError{fmt.Errorf("the configuration has several listeners; give --listener with one of %s", strings.Join(names, ", "))}
		}
		listener = names[0]
	}
	return admin, listener, nil
}

func explainPolicy(ctx context.Context, out io.Writer, admin, listener, request string, asJSON bool) error {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	target := "http://" + admin + "/api/v1/listeners/" + url.PathEscape(listener) + "/explain?request=" + url.QueryEscape(request)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("the admin port %s cannot be asked: %w", admin, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 16<<20))
	if err != nil {
		return err
	}
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("the gateway at %s has no listener %q", admin, listener)
	case resp.StatusCode != http.StatusOK:
		return errors.New(strings.TrimSpace(string(body)))
	case asJSON:
		_, err := out.Write(body)
		return err
	}
	var a choice.Answer
	if err := json.Unmarshal(body, &a); err != nil {
		return fmt.Errorf("the answer of %s cannot be read: %w", admin, err)
	}
	fmt.Fprintf(out, "listener %s, head %d", a.Listener, a.Head)
	if a.Protocol != "evm" {
		fmt.Fprintf(out, ", LIB %d", a.LIB)
	}
	fmt.Fprintln(out)
	for i, step := range a.Steps {
		fmt.Fprintf(out, "%2d. %s\n", i+1, step)
	}
	return nil
}
