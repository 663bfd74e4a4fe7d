package logging

import (
	"fmt"
	"log/slog"
	"math"
	"strings"
)

// Off is above every level, so that nothing is logged.
const Off = slog.Level(math.MaxInt)

// The variables that set the level; the first one that is not blank counts.
// The second is the peer's and may hold a list of directives.
var levelVariables = [...]string{"FLOTILLA_LOG", "RUST_LOG"}

func levelFromEnv(getenv func(string) string) (slog.Level, error) {
	for _, name := range levelVariables {
		value := strings.TrimSpace(getenv(name))
		if value == "" {
			continue
		}
		level, err := ParseLevel(value)
		if err != nil {
			return slog.LevelInfo, fmt.Errorf("%s: %w", name, err)
		}
		return level, nil
	}
	return slog.LevelInfo, nil
}

// ParseLevel reads a level, or a comma-separated list of directives as RUST_LOG
// has them: "info", "fleet_router=debug,info", "fleet_router::session=debug".
// The most verbose one that is bare or about this program counts; those for
// other programs do not. With an error, which a list without any such directive
// gives too, the level is Info.
func ParseLevel(list string) (slog.Level, error) {
	level, found := Off, false
	for directive := range strings.SplitSeq(list, ",") {
		if directive = strings.TrimSpace(directive); directive == "" {
			continue
		}
		l, ours, err := parseDirective(directive)
		if err != nil {
			return slog.LevelInfo, err
		}
		if ours {
			level, found = min(level, l), true
		}
	}
	if !found {
		return slog.LevelInfo, fmt.Errorf("nothing in %q is about this program: %s", list, allowed)
	}
	return level, nil
}

const allowed = "use debug, info, warn, error or off"

// parseDirective reads "level", "target" or "target=level". A target without a
// level asks for everything.
func parseDirective(directive string) (level slog.Level, ours bool, err error) {
	target, name, hasLevel := strings.Cut(directive, "=")
	if !hasLevel {
		if level, ok := levelOf(directive); ok {
			return level, true, nil
		}
		name = "debug"
	}
	target = strings.TrimSpace(target)
	if strings.ContainsFunc(target, notInTarget) {
		return 0, false, fmt.Errorf("%q cannot be read: %s", directive, allowed)
	}
	level, ok := levelOf(name)
	if !ok {
		return 0, false, fmt.Errorf("there is no level %q: %s", strings.TrimSpace(name), allowed)
	}
	return level, isOurs(target), nil
}

// levelOf knows the names and numbers of the peer's levels. There is nothing
// below debug here.
func levelOf(name string) (level slog.Level, ok bool) {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "trace", "debug", "5", "4":
		return slog.LevelDebug, true
	case "info", "3":
		return slog.LevelInfo, true
	case "warn", "2":
		return slog.LevelWarn, true
	case "error", "1":
		return slog.LevelError, true
	case "off", "0":
		return Off, true
	}
	return 0, false
}

// isOurs reports whether a target is this program or a part of it, under its
// own name or the peer's.
func isOurs(target string) bool {
	program, _, _ := strings.Cut(target, "::")
	return program == "flotilla" || program == "fleet_router"
}

// notInTarget reports whether r cannot be in the path of a target; filters by
// span and field are not supported.
func notInTarget(r rune) bool {
	return !strings.ContainsRune("_-:", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}
