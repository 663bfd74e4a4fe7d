package filewatch

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// never is a poll that no test lives to see: what is seen is seen by
// notifications.
const never = time.Hour

// patience is how long a test waits for what is due on a busy machine.
const patience = time.Minute

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path, []byte(text), 0o600))
}

// run calls f until the end of the test, and waits for it.
func run(t *testing.T, f func(ctx context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { f(ctx) })
	stop = func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	return stop
}

// watched reads a file each time that it may have changed.
type watched struct {
	t     *testing.T
	seen  chan string
	log   bytes.Buffer // read it after stop only
	stop  func()
	first string
}

// watch watches path by its folder, and returns after the first look.
func watch(t *testing.T, path string, poll time.Duration) *watched {
	t.Helper()
	w := &watched{t: t, seen: make(chan string)}
	log := slog.New(slog.NewTextHandler(&w.log, nil))
	w.stop = run(t, func(ctx context.Context) {
		Watch(ctx, log, "test", func() []string { return []string{filepath.Dir(path)} }, poll, func() bool {
			text, err := os.ReadFile(path)
			if err != nil {
				text = []byte("no file")
			}
			select {
			case w.seen <- string(text):
			case <-ctx.Done():
			}
			return false
		})
	})
	w.first = w.next()
	return w
}

// next waits for the next look.
func (w *watched) next() string {
	w.t.Helper()
	select {
	case text := <-w.seen:
		return text
	case <-time.After(patience):
		w.t.Fatal("nobody looks any more")
		return ""
	}
}

// until waits for a look that finds the text.
func (w *watched) until(text string) {
	w.t.Helper()
	for w.next() != text {
	}
}

func TestNotifications(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, dir, path string){
		"written in place": func(t *testing.T, _, path string) { write(t, path, "two") },
		"a rename over it": func(t *testing.T, dir, path string) {
			write(t, filepath.Join(dir, "new"), "two")
			must(t, os.Rename(filepath.Join(dir, "new"), path))
		},
		"removed and written": func(t *testing.T, _, path string) {
			must(t, os.Remove(path))
			write(t, path, "two")
		},
		"moved away and back": func(t *testing.T, dir, path string) {
			must(t, os.Rename(path, filepath.Join(dir, "old")))
			write(t, filepath.Join(dir, "old"), "two")
			must(t, os.Rename(filepath.Join(dir, "old"), path))
		},
		"a symlink in its place": func(t *testing.T, _, path string) {
			other := filepath.Join(t.TempDir(), "other")
			write(t, other, "two")
			must(t, os.Symlink(other, path+".new"))
			must(t, os.Rename(path+".new", path))
		},
		"many files": func(t *testing.T, dir, path string) {
			for n := range 200 {
				write(t, filepath.Join(dir, fmt.Sprint(n)), "x")
			}
			write(t, path, "two")
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "file")
			write(t, path, "one")
			w := watch(t, path, never)
			if w.first != "one" {
				t.Errorf("the first look found %q", w.first)
			}
			change(t, dir, path)
			w.until("two")
		})
	}
}

// TestRemovalIsSeen, and a file that comes only later.
func TestRemovalIsSeen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	w := watch(t, path, never)
	if w.first != "no file" {
		t.Errorf("the first look found %q", w.first)
	}
	write(t, path, "one")
	w.until("one")
	must(t, os.Remove(path))
	w.until("no file")
}

// TestBusyFolder: a change is seen while others go on and on.
func TestBusyFolder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	write(t, path, "one")
	w := watch(t, path, never)
	run(t, func(ctx context.Context) {
		for ctx.Err() == nil {
			if err := os.WriteFile(filepath.Join(dir, "noise"), nil, 0o600); err != nil {
				t.Error(err)
				return
			}
		}
	})
	write(t, path, "two")
	w.until("two")
	// And again, not only the first time.
	write(t, path, "three")
	w.until("three")
}

// TestSeveralFolders, which may change while they are watched.
func TestSeveralFolders(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	looks := make(chan struct{})
	run(t, func(ctx context.Context) {
		Watch(ctx, slog.New(slog.DiscardHandler), "test", func() []string { return []string{one, two, one} }, never, func() bool {
			select {
			case looks <- struct{}{}:
			case <-ctx.Done():
			}
			return false
		})
	})
	await := func() {
		t.Helper()
		select {
		case <-looks:
		case <-time.After(patience):
			t.Fatal("nobody looks")
		}
	}
	await()
	write(t, filepath.Join(one, "a"), "x")
	await()
	write(t, filepath.Join(two, "b"), "x")
	await()
}

// TestFolderThatDisappears, in whatever way, is watched again when it is back:
// the poll finds it.
func TestFolderThatDisappears(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, dir string){
		"removed": func(t *testing.T, dir string) {
			must(t, os.RemoveAll(dir))
			must(t, os.Mkdir(dir, 0o700))
		},
		"moved": func(t *testing.T, dir string) {
			must(t, os.Rename(dir, dir+".old"))
			must(t, os.Mkdir(dir, 0o700))
		},
		"its parent moved": func(t *testing.T, dir string) {
			parent := filepath.Dir(dir)
			must(t, os.Rename(parent, parent+".old"))
			must(t, os.MkdirAll(dir, 0o700))
		},
		"swapped for a symlink": func(t *testing.T, dir string) {
			must(t, os.Rename(dir, dir+".old"))
			must(t, os.Symlink(t.TempDir(), dir))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "parent", "dir")
			must(t, os.MkdirAll(dir, 0o700))
			path := filepath.Join(dir, "file")
			write(t, path, "one")
			w := watch(t, path, 50*time.Millisecond)
			replace(t, dir)
			w.until("no file")
			write(t, path, "two")
			w.until("two")
			must(t, os.Remove(path))
			w.until("no file")
			w.stop()
			if n := strings.Count(w.log.String(), "level=WARN"); n > 1 {
				t.Errorf("%d warnings:\n%s", n, &w.log)
			}
		})
	}
}

// TestFolderThatIsNotThere is warned of once, and watched when it comes.
func TestFolderThatIsNotThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	path := filepath.Join(dir, "file")
	w := watch(t, path, 50*time.Millisecond)
	for range 3 {
		if got := w.next(); got != "no file" {
			t.Errorf("found %q", got)
		}
	}
	must(t, os.Mkdir(dir, 0o700))
	write(t, path, "one")
	w.until("one")
	w.stop()
	log := w.log.String()
	if strings.Count(log, "level=WARN") != 1 || !strings.Contains(log, "folder="+dir) || !strings.Contains(log, "files=test") {
		t.Errorf("logged:\n%s", log)
	}
}

// TestPoll is what is left without notifications, in fake time: a look at once,
// one each poll, and one Confirm after a look that was unsure.
func TestPoll(t *testing.T) {
	const ms = time.Millisecond
	always := func(int) bool { return true }
	first := func(n int) bool { return n == 1 }
	for name, tt := range map[string]struct {
		poll   time.Duration
		unsure func(look int) bool // look counts from 1
		until  time.Duration
		want   []time.Duration
	}{
		"sure":             {5000 * ms, func(int) bool { return false }, 15001 * ms, []time.Duration{0, 5000 * ms, 10000 * ms, 15000 * ms}},
		"unsure once":      {5000 * ms, first, 5001 * ms, []time.Duration{0, 1000 * ms, 5000 * ms}},
		"unsure twice":     {5000 * ms, func(n int) bool { return n <= 2 }, 5001 * ms, []time.Duration{0, 1000 * ms, 2000 * ms, 5000 * ms}},
		"unsure at a poll": {5000 * ms, func(n int) bool { return n == 2 }, 7000 * ms, []time.Duration{0, 5000 * ms, 6000 * ms}},
		"always unsure":    {5000 * ms, always, 3001 * ms, []time.Duration{0, 1000 * ms, 2000 * ms, 3000 * ms}},
		"short polls": {400 * ms, always, 2100 * ms,
			[]time.Duration{0, 400 * ms, 800 * ms, 1000 * ms, 1200 * ms, 1600 * ms, 2000 * ms, 2000 * ms}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				var looks []time.Duration
				stop := run(t, func(ctx context.Context) {
					PollOnly(ctx, tt.poll, func() bool {
						looks = append(looks, time.Since(began))
						return tt.unsure(len(looks))
					})
				})
				time.Sleep(tt.until)
				stop()
				if !slices.Equal(looks, tt.want) {
					t.Errorf("looked at %v, %v was due", looks, tt.want)
				}
			})
		})
	}
}

// TestConfirmAfterANotification: a file that is half written is looked at
// again though nothing more happens to it.
func TestConfirmAfterANotification(t *testing.T) {
	dir := t.TempDir()
	looks := make(chan time.Time)
	var changed atomic.Bool
	run(t, func(ctx context.Context) {
		doubted := false
		Watch(ctx, slog.New(slog.DiscardHandler), "test", func() []string { return []string{dir} }, never, func() bool {
			now, unsure := time.Now(), changed.Load() && !doubted
			doubted = doubted || unsure
			select {
			case looks <- now:
			case <-ctx.Done():
			}
			return unsure
		})
	})
	next := func() time.Time {
		t.Helper()
		select {
		case at := <-looks:
			return at
		case <-time.After(patience):
			t.Fatal("nobody looks")
			return time.Time{}
		}
	}
	next()
	changed.Store(true)
	began := time.Now()
	write(t, filepath.Join(dir, "file"), "half")
	first := next()
	if took := first.Sub(began); took < Settle {
		t.Errorf("looked after %v, before the writer could end", took)
	}
	// The events of one write may be told of in parts, which are looks of their
	// own; the last one is that which confirms.
	for last := first; last.Sub(first) < Confirm; {
		last = next()
	}
}

// TestEnd: whoever comes too late still gets one look, and does not wait for the
// next.
func TestEnd(t *testing.T) {
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	looks := 0
	cancel()
	Watch(ctx, slog.New(slog.DiscardHandler), "test", func() []string { return []string{dir} }, never, func() bool {
		looks++
		return true
	})
	if looks != 1 {
		t.Errorf("%d looks, the first one was due", looks)
	}
}
