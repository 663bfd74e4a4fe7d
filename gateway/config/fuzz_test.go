package config

import (
	"errors"
	"strings"
	"testing"
)

// checkParse holds what is true of any input.
func checkParse(t *testing.T, file string, text []byte) {
	cfg, warnings, err := Parse(file, text)
	var invalid *InvalidError
	switch {
	case (cfg == nil) == (err == nil):
		t.Fatalf("a configuration (%v) and the error %v", cfg != nil, err)
	case errors.As(err, &invalid):
		warnings = append(warnings, invalid.Problems...)
		if err.Error() == "" {
			t.Fatal("the error is empty")
		}
	}
	lines := strings.Count(string(text), "\n") + 1
	for _, p := range warnings {
		if p.File != file || p.Line < 1 || p.Line > lines+1 || p.Column < 1 || p.Message == "" {
			t.Fatalf("a problem without a place: %#v", p)
		}
	}
	if cfg != nil && len(cfg.Listeners) == 0 {
		t.Fatal("a configuration without listeners")
	}
}

func FuzzParseJSON(f *testing.F) {
	for _, r := range append(jsonRules, jsonWarnings...) {
		f.Add([]byte(strings.ReplaceAll(r.text, mark, "")))
	}
	f.Fuzz(func(t *testing.T, text []byte) { checkParse(t, "config.json", text) })
}

func FuzzParseHCL(f *testing.F) {
	for _, r := range hclRules {
		f.Add([]byte(strings.ReplaceAll(r.text, mark, "")))
	}
	f.Add(Sample())
	f.Fuzz(func(t *testing.T, text []byte) { checkParse(t, "flotilla.hcl", text) })
}
