package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"flotilla/gateway/config"
)

// text is a small configuration whose listener has the given name.
func text(name string) string {
	return fmt.Sprintf(`listener "ship" %q {
  address = "127.0.0.1:17000"
  server "a" { endpoint = "127.0.0.1:18080" }
}
`, name)
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// watched runs a Watcher on path, and returns how to wait for what it sends.
func watched(t *testing.T, path string) (next func() Reload, told chan<- os.Signal) {
	t.Helper()
	running, _, err := config.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	w := NewWatcher(path, running, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	signals := make(chan os.Signal)
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx, signals)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return func() Reload {
		t.Helper()
		select {
		case r := <-w.Reloads():
			return r
		case <-time.After(time.Minute):
			t.Fatal("nothing was sent within a minute")
			return Reload{}
		}
	}, signals
}

func wantListener(t *testing.T, r Reload, name string) {
	t.Helper()
	if r.Err != nil {
		t.Fatalf("an error was sent: %v", r.Err)
	}
	if got := r.Config.Listeners[0].Name; got != name {
		t.Fatalf("the listener is %q, %q was due", got, name)
	}
}

func TestWatcherSeesTheWaysThatFilesChange(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, dir, path string){
		"written in place": func(t *testing.T, _, path string) { write(t, path, text("two")) },
		"an editor's rename": func(t *testing.T, dir, path string) {
			write(t, filepath.Join(dir, "flotilla.hcl.tmp"), text("two"))
			if err := os.Rename(filepath.Join(dir, "flotilla.hcl.tmp"), path); err != nil {
				t.Fatal(err)
			}
		},
		"removed and written again": func(t *testing.T, _, path string) {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			write(t, path, text("two"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "flotilla.hcl")
			write(t, path, text("one"))
			next, _ := watched(t, path)
			change(t, dir, path)
			wantListener(t, next(), "two")
		})
	}
}

// TestWatcherFollowsAConfigMap swaps the symlink that a mounted ConfigMap
// leads through, as Kubernetes does.
func TestWatcherFollowsAConfigMap(t *testing.T) {
	dir := t.TempDir()
	version := func(name string) {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name, "flotilla.hcl"), text(name))
	}
	link := func(target, name string) {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	version("one")
	link("one", "..data")
	link(filepath.Join("..data", "flotilla.hcl"), "flotilla.hcl")
	next, _ := watched(t, filepath.Join(dir, "flotilla.hcl"))
	version("two")
	link("two", "..data_tmp")
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	wantListener(t, next(), "two")
}

func TestWatcherSeesAFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "one.hcl"), text("one"))
	next, _ := watched(t, dir)
	write(t, filepath.Join(dir, "two.hcl"), `listener "ship" "two" {
  address = "127.0.0.1:17001"
  server "a" { endpoint = "127.0.0.1:18080" }
}
`)
	if r := next(); r.Err != nil || len(r.Config.Listeners) != 2 {
		t.Fatalf("sent: %+v", r)
	}
}

func TestWatcherTellsOfABadFileOnceAndOfItsRepair(t *testing.T) {
	path := filepath.Join(t.TempDir(), "flotilla.hcl")
	write(t, path, text("one"))
	next, told := watched(t, path)
	write(t, path, "listener {")
	if r := next(); r.Err == nil {
		t.Fatalf("sent: %+v", r)
	}
	// The same again changes nothing, so the next thing sent is the repair: of
	// what was running before, which the gateway has to be told of too.
	write(t, path, "listener {")
	write(t, path, text("one"))
	wantListener(t, next(), "one")
	told <- syscall.SIGHUP
	wantListener(t, next(), "one")
}
