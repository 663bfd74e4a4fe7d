package logging

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"strings"
	"testing"
)

func env(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

func TestLevelFromEnvironment(t *testing.T) {
	for _, c := range []struct {
		name           string
		flotilla, rust string
		want           slog.Level
		warned         string
	}{
		{name: "unset", want: slog.LevelInfo},
		{name: "blank", flotilla: " ", rust: " ", want: slog.LevelInfo},
		{name: "peer's variable", rust: "fleet_router=debug,info", want: slog.LevelDebug},
		{name: "ours wins", flotilla: "error", rust: "debug", want: slog.LevelError},
		{name: "blank falls through", flotilla: "", rust: "warn", want: slog.LevelWarn},
		{name: "off", flotilla: "off", want: Off},
		{name: "bad", flotilla: "loud", rust: "debug", want: slog.LevelInfo, warned: "FLOTILLA_LOG"},
		{name: "bad peer's", rust: "fleet_router=loud", want: slog.LevelInfo, warned: "RUST_LOG"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			_, level := New(&out, Options{Getenv: env(map[string]string{"FLOTILLA_LOG": c.flotilla, "RUST_LOG": c.rust})})
			if level.Level() != c.want {
				t.Errorf("the level is %v, %v was due", level.Level(), c.want)
			}
			if c.warned == "" && out.Len() > 0 {
				t.Errorf("it logged %s", &out)
			}
			if n := strings.Count(out.String(), "\n"); c.warned != "" && (n != 1 || !strings.Contains(out.String(), c.warned)) {
				t.Errorf("it logged %q, one line about %s was due", &out, c.warned)
			}
		})
	}
}

func TestNewReadsTheProcessEnvironment(t *testing.T) {
	t.Setenv("FLOTILLA_LOG", "")
	t.Setenv("RUST_LOG", "warn")
	if _, level := New(&bytes.Buffer{}, Options{}); level.Level() != slog.LevelWarn {
		t.Errorf("the level is %v", level.Level())
	}
}

func TestFormats(t *testing.T) {
	none := env(nil)
	for format, wantJSON := range map[Format]bool{Text: false, JSON: true, Auto: true, "": true} {
		var out bytes.Buffer
		log, _ := New(&out, Options{Format: format, Getenv: none})
		log.Info("hello", "n", 1)
		if isJSON := json.Valid(out.Bytes()); isJSON != wantJSON {
			t.Errorf("format %q wrote %s", format, &out)
		}
		if !strings.Contains(out.String(), "hello") {
			t.Errorf("format %q lost the message: %s", format, &out)
		}
	}
}

// A character device stands for the terminal, which a test run may not have.
func TestAutoIsTextOnATerminal(t *testing.T) {
	device, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer device.Close()
	file, err := os.Create(t.TempDir() + "/log")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	level := new(slog.LevelVar)
	if _, text := handler(device, Auto, level).(*slog.TextHandler); !text {
		t.Error("a terminal does not get text")
	}
	if _, isJSON := handler(device, JSON, level).(*slog.JSONHandler); !isJSON {
		t.Error("json is not honoured on a terminal")
	}
	if _, isJSON := handler(file, Auto, level).(*slog.JSONHandler); !isJSON {
		t.Error("a file does not get JSON")
	}
}

func TestLevelChangesAtRunTime(t *testing.T) {
	var out bytes.Buffer
	log, level := New(&out, Options{Getenv: env(map[string]string{"FLOTILLA_LOG": "off"})})
	log.Error("unheard")
	level.Set(slog.LevelDebug)
	log.Debug("heard")
	if got := out.String(); strings.Contains(got, "unheard") || !strings.Contains(got, `"heard"`) {
		t.Errorf("it logged %s", got)
	}
}

func TestParseFormat(t *testing.T) {
	for value, want := range map[string]Format{"": Auto, "auto": Auto, "text": Text, "JSON": JSON} {
		if got, err := ParseFormat(value); err != nil || got != want {
			t.Errorf("%q is %q (%v)", value, got, err)
		}
	}
	if _, err := ParseFormat("xml"); err == nil || !strings.Contains(err.Error(), "auto, text or json") {
		t.Errorf("xml gives %v", err)
	}
}
