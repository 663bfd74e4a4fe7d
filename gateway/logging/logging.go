// Package logging makes the process's logger: text for people, JSON for
// machines, and a level from the environment (docs/operations.md).
package logging

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

// Format is how log lines look.
type Format string

// The formats.
const (
	// Auto is Text on a terminal and JSON elsewhere.
	Auto Format = "auto"
	Text Format = "text"
	JSON Format = "json"
)

// ParseFormat reads the value of --log-format; empty is Auto. The error says
// what is allowed.
func ParseFormat(value string) (Format, error) {
	switch f := Format(strings.ToLower(value)); f {
	case Auto, Text, JSON:
		return f, nil
	case "":
		return Auto, nil
	}
	return "", fmt.Errorf("there is no log format %q: use auto, text or json", value)
}

// Options say how to log.
type Options struct {
	// Format is Auto when empty.
	Format Format
	// Getenv looks up the level's variables; nil is os.Getenv.
	Getenv func(name string) string
}

// New makes a logger that writes to w, and the level that it goes by, which may
// be changed at any time. A level variable that cannot be read is told in a
// warning, and Info is used.
func New(w io.Writer, o Options) (*slog.Logger, *slog.LevelVar) {
	getenv := o.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	level := new(slog.LevelVar)
	chosen, err := levelFromEnv(getenv)
	level.Set(chosen)
	log := slog.New(handler(w, o.Format, level))
	if err != nil {
		log.Warn("the log level cannot be read; info is used", "error", err)
	}
	return log, level
}

func handler(w io.Writer, f Format, level slog.Leveler) slog.Handler {
	o := &slog.HandlerOptions{Level: level}
	if f == Text || f != JSON && isTerminal(w) {
		return slog.NewTextHandler(w, o)
	}
	return slog.NewJSONHandler(w, o)
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
