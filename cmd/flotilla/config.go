package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"flotilla/gateway/config"

	"github.com/spf13/cobra"
)

// newConfigCommand is "flotilla config": write, test and convert
// configurations.
func newConfigCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "config",
		Short: "Write, test or convert a configuration",
		Args:  usageArgs(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return usageError{errors.New("config needs a command: init, test or convert")}
		},
	}
	cmd.AddCommand(newConfigInitCommand(), newConfigTestCommand(), newConfigConvertCommand())
	return cmd
}

func newConfigInitCommand() *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "init FILE",
		Short: "Write a commented sample configuration",
		Args:  usageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := filepath.Abs(args[0])
			if err != nil {
				return err
			}
			if filepath.Ext(path) == ".json" {
				return fmt.Errorf("the sample is HCL, so %s would not be read as such: use a name that ends in .hcl", path)
			}
			if err := writeNew(path, config.Sample(), 0o644, force); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is written.\nEdit it, then test it:\n  flotilla config test %s\n", path, path)
			return nil
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "overwrite an existing file")
	return cmd
}

func newConfigConvertCommand() *cobra.Command {
	var force, fromEnv bool
	cmd := &cobra.Command{
		Use:   "convert [FILE] [NEW]",
		Short: "Write a fleet-router or erigon_proxy configuration as HCL",
		Long: "Write a fleet-router JSON configuration as HCL, to the file NEW or to the standard output.\n" +
			"With --from-env it is what erigon_proxy reads: its environment variables, and no FILE.\n" +
			"The new configuration behaves as the old one does.",
		Args: usageArgs(cobra.RangeArgs(0, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if fromEnv {
				return convertEnv(cmd, args, force)
			}
			if len(args) == 0 {
				return usageError{errors.New("config convert needs a FILE, or --from-env")}
			}
			return convertFile(cmd, args, force)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "overwrite an existing file")
	cmd.Flags().BoolVar(&fromEnv, "from-env", false, "read erigon_proxy's environment variables")
	return cmd
}

func convertFile(cmd *cobra.Command, args []string, force bool) error {
	cfg, warnings, err := config.Load(args[0])
	printWarnings(cmd.ErrOrStderr(), warnings)
	if err != nil {
		return err
	}
	text := config.FormatHCL(cfg)
	if _, _, err := config.Parse("converted.hcl", text); err != nil {
		return fmt.Errorf("HCL is stricter and does not take this configuration; correct %s where the warnings say so, and convert it again\n%w", args[0], err)
	}
	if len(args) == 1 {
		_, err := cmd.OutOrStdout().Write(text)
		return err
	}
	// The text may hold a token, so the new file is no more readable than the
	// old one.
	info, err := os.Stat(args[0])
	if err != nil {
		return err
	}
	return writeNew(args[1], text, info.Mode().Perm()&0o666, force)
}

func convertEnv(cmd *cobra.Command, args []string, force bool) error {
	if len(args) > 1 {
		return usageError{errors.New("config convert --from-env takes one argument, the file to write")}
	}
	cfg, warnings, err := config.FromEnv(os.Getenv)
	if err != nil {
		return err
	}
	for _, w := range warnings {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s %s\n", newPainter(cmd.ErrOrStderr()).yellow("warning:"), w)
	}
	text := config.FormatHCL(cfg)
	if _, _, err := config.Parse("converted.hcl", text); err != nil {
		return fmt.Errorf("HCL is stricter and does not take these settings; change the variables and convert them again\n%w", err)
	}
	if len(args) == 0 {
		_, err := cmd.OutOrStdout().Write(text)
		return err
	}
	// It holds the reference provider's key.
	return writeNew(args[0], text, 0o600, force)
}

// writeNew writes a file that must not be there yet, unless force is set.
func writeNew(path string, text []byte, mode fs.FileMode, force bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, mode)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already; --force overwrites it", path)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = f.Write(text)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func printWarnings(w io.Writer, warnings []config.Warning) {
	p := newPainter(w)
	for _, warning := range warnings {
		fmt.Fprintf(w, "%s %s\n", p.yellow("warning:"), warning)
	}
}

// painter colors words when the output is a terminal that wants it.
type painter struct{ on bool }

func newPainter(w io.Writer) painter {
	return painter{isTerminal(w) && os.Getenv("NO_COLOR") == ""}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice != 0
}

func (p painter) paint(code, text string) string {
	if !p.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (p painter) red(text string) string    { return p.paint("31", text) }
func (p painter) green(text string) string  { return p.paint("32", text) }
func (p painter) yellow(text string) string { return p.paint("33", text) }

// oneLine keeps a text from breaking a table, or a terminal.
func oneLine(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, text)
}
