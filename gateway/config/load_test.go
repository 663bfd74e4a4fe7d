package config

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestLoadNamesWhatCannotBeRead(t *testing.T) {
	folder := t.TempDir()
	big := filepath.Join(folder, "big.json")
	if err := os.WriteFile(big, bytes.Repeat([]byte(" "), maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(folder, "pipe.hcl")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, word string }{
		{filepath.Join(folder, "nothing.json"), "no such file"},
		{big, "1 MiB"},
		{pipe, "not a regular file"},
	} {
		_, _, err := Load(c.path)
		if err == nil || !strings.Contains(err.Error(), c.path) || !strings.Contains(err.Error(), c.word) {
			t.Errorf("got %v, want the path and %q", err, c.word)
		}
	}
	if _, _, err := Parse("big", make([]byte, maxFile+1)); err == nil || !strings.Contains(err.Error(), "1 MiB") {
		t.Errorf("Parse gives %v", err)
	}
}

func TestLanguageOfAFile(t *testing.T) {
	for _, c := range []struct{ name, text string }{
		{"config.json", jsonWith()},
		{"config", " \n" + jsonWith()},
		{"config.hcl", hclWith("", "")},
		{"config", hclWith("", "")},
	} {
		path := filepath.Join(t.TempDir(), c.name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, _, err := Load(path)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if cfg.Path != path {
			t.Errorf("the path is %s", cfg.Path)
		}
	}
}

func TestErrorShowsTheLine(t *testing.T) {
	text := "{\n\t\"listen_port\": 0,\n\t\"dashboard\": {\"control_token\": \"short\"}, \"servers\": [{\"name\": \"a\", \"enabled\": true, \"endpoint\": \"http://me:pw@h\"}]\n}"
	_, _, err := Parse("config.json", []byte(text))
	if err == nil {
		t.Fatal("no error")
	}
	got := err.Error()
	for _, want := range []string{
		"the configuration config.json is not valid: 7 problems\n",
		"\nconfig.json:2:17: listen_port is 0 or missing\n    2 | \t\"listen_port\": 0,\n      | \t               ^\n        a port from 1 to 65535 is expected\n",
		"\nconfig.json:3:33: dashboard.control_token is too short\n",
		"\"*****\"",
		"http://*****@h",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the error lacks %q:\n%s", want, got)
		}
	}
	for _, secret := range []string{"short\"", "me:pw"} {
		if strings.Contains(got, secret) {
			t.Errorf("the error shows %q:\n%s", secret, got)
		}
	}
}

func TestLongLinesAreCut(t *testing.T) {
	text := strings.ReplaceAll(jsonWith(`"comment": "`+strings.Repeat("ä", 5000)+`"`, `"idle_timeout_ms": -1`), "\n", "")
	_, _, err := Parse("config.json", []byte(text))
	var invalid *InvalidError
	if !errors.As(err, &invalid) {
		t.Fatal(err)
	}
	p := invalid.Problems[0]
	line := []rune(p.SourceLine)
	if len(line) != maxLine || string(line[p.caret:p.caret+2]) != "-1" {
		t.Errorf("got %q with the caret at %d", p.SourceLine, p.caret)
	}
}

func TestManyProblemsAreCounted(t *testing.T) {
	text := jsonWith(`"servers": [` + strings.Repeat(`{"name": 1}, `, 100) + oneServer + `]`)
	_, _, err := Parse("config.json", []byte(text))
	if err == nil || !strings.HasSuffix(err.Error(), "more") {
		t.Errorf("got %v", err)
	}
}

// TestHostileInput must end soon and without exhausting the stack.
func TestHostileInput(t *testing.T) {
	for _, c := range []struct{ piece, word string }{
		{"(", "too deep"}, {"[", "too deep"}, {"{", "too deep"}, {"\"${", "too deep"}, {"a {\n", "too deep"}, {"\"${\"%{", "too deep"},
		{"!", "too long"}, {"-", "arithmetic"}, {"1+", "arithmetic"}, {"1?1:", "too long"}, {"[a]", "too long"}, {"a.", "too long"}, {"<A ", "arithmetic"},
		{"<<A\n", "too large"}, {"#\n/*", "not closed"}, {"\"", "newline"},
	} {
		text := strings.Repeat(c.piece, maxFile/len(c.piece)/10)
		if _, _, err := Parse("flotilla.hcl", []byte("x = "+text)); err == nil || !strings.Contains(err.Error(), c.word) {
			t.Errorf("%q again and again: %v, want %q", c.piece, err, c.word)
		}
		if _, _, err := Parse("config.json", []byte(`{"x": `+text)); err == nil || !strings.Contains(err.Error(), "not JSON") {
			t.Errorf("%q again and again is taken as JSON: %v", c.piece, err)
		}
	}
	var chain strings.Builder
	chain.WriteString("locals {\n  a00 = [1]\n")
	for i := 1; i < 40; i++ {
		chain.WriteString("  " + name(i) + " = [local." + name(i-1) + ", local." + name(i-1) + "]\n")
	}
	chain.WriteString("}\nx = local." + name(39) + "\n")
	if _, _, err := Parse("flotilla.hcl", []byte(chain.String())); err == nil {
		t.Error("a value of 2^40 parts is accepted")
	}
}

func name(i int) string { return "a" + string(rune('0'+i/10)) + string(rune('0'+i%10)) }
