package logging

import (
	"log/slog"
	"strings"
	"testing"
)

func TestParseLevel(t *testing.T) {
	for list, want := range map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError, "off": Off,
		"DEBUG": slog.LevelDebug, " Warn ": slog.LevelWarn, "trace": slog.LevelDebug,
		"0": Off, "1": slog.LevelError, "2": slog.LevelWarn, "3": slog.LevelInfo, "4": slog.LevelDebug, "5": slog.LevelDebug,

		"fleet_router=debug,info":     slog.LevelDebug,
		"info,fleet_router=debug":     slog.LevelDebug,
		"warn,fleet_router=error":     slog.LevelWarn,
		"fleet_router=warn":           slog.LevelWarn,
		"flotilla=error":              slog.LevelError,
		"fleet_router::session=debug": slog.LevelDebug,
		"fleet_router":                slog.LevelDebug,
		"flotilla,warn":               slog.LevelDebug,
		"tokio=trace,warn":            slog.LevelWarn,
		"fleet_routers=debug,error":   slog.LevelError,
		"hyper,error":                 slog.LevelError,
		" off , fleet_router = warn ": slog.LevelWarn,
		",,warn,":                     slog.LevelWarn,
	} {
		if got, err := ParseLevel(list); err != nil || got != want {
			t.Errorf("%q is %v (%v), %v was due", list, got, err, want)
		}
	}
}

func TestParseLevelRefuses(t *testing.T) {
	for _, list := range []string{
		"", ",", "loud", "inof", "tokio=debug", "fleet_router=loud", "=", "info=", "debug,fleet_router=",
		"fleet_router[client]=debug", "a b=info", "info;debug", "-1", "6", "é",
	} {
		if got, err := ParseLevel(list); err == nil || got != slog.LevelInfo {
			t.Errorf("%q is %v (%v), an error and info were due", list, got, err)
		}
	}
}

func FuzzParseLevel(f *testing.F) {
	for _, seed := range []string{"info", "fleet_router=debug,info", "fleet_router::session=debug", "off", "=,=", "a[b{c=d}]=e"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, list string) {
		level, err := ParseLevel(list)
		if err != nil && level != slog.LevelInfo {
			t.Errorf("%q is refused with level %v", list, level)
		}
		// A bare debug is the most verbose directive there is.
		if all, err2 := ParseLevel(list + ",debug"); err == nil && (err2 != nil || all != slog.LevelDebug) {
			t.Errorf("%q with debug is %v (%v)", list, all, err2)
		}
		if strings.TrimSpace(list) == "" && err == nil {
			t.Errorf("%q is accepted", list)
		}
	})
}
