// Command flotilla is one endpoint in front of a fleet of blockchain nodes.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
)

func main() { os.Exit(execute(arguments(os.Args))) }

// arguments are those of the command line. Under the name of erigon_proxy the
// program is that, so that a unit file which starts it need not change.
func arguments(argv []string) []string {
	if filepath.Base(argv[0]) == "erigon_proxy" {
		return append([]string{"erigon-proxy"}, argv[1:]...)
	}
	return argv[1:]
}

// usageError is a mistake on the command line; its exit code is 2.
type usageError struct{ error }

// execute runs the command line and returns the exit code: 0, 1 for a command
// that failed, 2 for one that was not understood.
func execute(args []string) int {
	root := newRootCommand()
	root.SetArgs(args)
	err := root.Execute()
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "flotilla: %v\n", err)
	var usage usageError
	if errors.As(err, &usage) {
		fmt.Fprintln(os.Stderr, "Run 'flotilla --help' for how to use it.")
		return 2
	}
	return 1
}

func newRootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "flotilla",
		Short:         "One endpoint in front of a fleet of blockchain nodes",
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          usageArgs(cobra.NoArgs),
	}
	root.SetVersionTemplate("flotilla {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.PersistentFlags().String("config", "config.json", "configuration: an HCL file, a folder of them, or a fleet-router JSON file")
	run := newRunCommand()
	// Without a command it runs, as fleet-router does.
	root.RunE = func(cmd *cobra.Command, args []string) error { return run.RunE(run, args) }
	root.AddCommand(run, newErigonProxyCommand(), newConfigCommand(), newCheckCommand(), newPolicyCommand(), newDemoCommand(), newSimCommand(), newVersionCommand())
	return root
}

// usageArgs makes a failed argument check a usage error.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{err}
		}
		return nil
	}
}
