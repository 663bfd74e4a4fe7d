package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"flotilla/gateway/config"
)

func TestArgumentsByName(t *testing.T) {
	for _, c := range []struct{ argv, want []string }{
		{[]string{"/usr/bin/erigon_proxy"}, []string{"erigon-proxy"}},
		{[]string{"erigon_proxy", "--help"}, []string{"erigon-proxy", "--help"}},
		{[]string{"/usr/bin/flotilla", "run"}, []string{"run"}},
		{[]string{"flotilla"}, []string{}},
	} {
		if got := arguments(c.argv); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.argv, got, c.want)
		}
	}
}

func TestDrainOrLeave(t *testing.T) {
	for name, c := range map[string]struct {
		signals []os.Signal
		forced  bool
	}{
		"SIGTERM drains":                {[]os.Signal{syscall.SIGTERM}, false},
		"SIGINT leaves":                 {[]os.Signal{syscall.SIGINT}, true},
		"a second SIGTERM ends a drain": {[]os.Signal{syscall.SIGTERM, syscall.SIGTERM}, true},
		"SIGINT ends a drain":           {[]os.Signal{syscall.SIGTERM, syscall.SIGINT}, true},
	} {
		t.Run(name, func(t *testing.T) {
			signals, stopped, force := make(chan os.Signal), make(chan struct{}), make(chan struct{})
			ended := make(chan struct{})
			drained := 0
			go func() {
				defer close(ended)
				drainOrLeave(signals, stopped, slog.New(slog.DiscardHandler), func() { drained++ }, force)
			}()
			for _, s := range c.signals {
				signals <- s
			}
			if c.forced {
				<-force
			} else {
				close(stopped)
			}
			<-ended
			if drained != len(c.signals) {
				t.Errorf("drain was begun %d times", drained)
			}
		})
	}
}

// The shipped sysconfig file is a configuration, with the defaults in its
// comments.
func TestSysconfigFile(t *testing.T) {
	text, err := os.ReadFile("../../deploy/systemd/erigon_proxy.sysconfig")
	if err != nil {
		t.Fatal(err)
	}
	plain, all := map[string]string{}, map[string]string{}
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "#")), "=")
		if !ok || strings.Contains(key, " ") {
			continue
		}
		all[key] = value
		if !strings.HasPrefix(line, "#") {
			plain[key] = value
		}
	}
	if len(all) != 17 {
		t.Errorf("%d variables, there are 17", len(all))
	}
	short, _, err := config.FromEnv(func(name string) string { return plain[name] })
	if err != nil {
		t.Fatal(err)
	}
	long, _, err := config.FromEnv(func(name string) string { return all[name] })
	if err != nil {
		t.Fatal(err)
	}
	if a, b := config.FormatHCL(short), config.FormatHCL(long); string(a) != string(b) {
		t.Errorf("the commented values are no defaults:\n%s\n%s", a, b)
	}
}

func TestConvertFromEnv(t *testing.T) {
	t.Setenv("INSTANCES", "10.0.0.1")
	t.Setenv("REFERENCE_ADDR", "ref.example")
	t.Setenv("SERVER_KEY", "secret")
	t.Setenv("BIND_ADDR", "127.0.0.1")
	file := filepath.Join(t.TempDir(), "flotilla.hcl")
	if code := execute([]string{"config", "convert", "--from-env", file}); code != 0 {
		t.Fatal(code)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v %v: it holds a secret", err, info.Mode())
	}
	cfg, _, err := config.Load(file)
	if err != nil || len(cfg.EVM) != 1 || cfg.EVM[0].Routing != config.RouteFreshest {
		t.Fatal(err)
	}
	t.Setenv("SERVER_KEY", "")
	if code := execute([]string{"config", "convert", "--from-env"}); code != 1 {
		t.Errorf("without a key: %d", code)
	}
	if code := execute([]string{"config", "convert", "--from-env", "a", "b"}); code != 2 {
		t.Errorf("with two files: %d", code)
	}
}
