package gateway

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"sync"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/filewatch"
)

// Watcher loads a configuration again when its files change, or when it is told
// to.
type Watcher struct {
	path string
	log  *slog.Logger
	out  chan Reload

	mu sync.Mutex
	// seen is the last configuration that was sent, or the one at the start.
	seen *config.Config
	// reported is the text of the error that was sent last, "" after a
	// configuration; suspect is one that is too new to be believed.
	reported, suspect string
	since             time.Time
}

// NewWatcher watches path, from which running was loaded.
func NewWatcher(path string, running *config.Config, log *slog.Logger) *Watcher {
	return &Watcher{path: path, log: log, out: make(chan Reload), seen: running}
}

// Reloads is what to give to Options.Reload.
func (w *Watcher) Reloads() <-chan Reload { return w.out }

// Run watches until ctx ends, and returns when nothing is left running. Each
// value of told (SIGHUP, say) loads the files whether they have changed or not.
func (w *Watcher) Run(ctx context.Context, told <-chan os.Signal) {
	var signals sync.WaitGroup
	signals.Go(func() {
		for {
			select {
			case <-ctx.Done():
				return
			case s := <-told:
				w.load(ctx, s.String(), true)
			}
		}
	})
	defer signals.Wait()
	filewatch.Watch(ctx, w.log, "configuration", w.folders, filewatch.Poll, func() bool {
		return w.load(ctx, "the files have changed", false)
	})
}

// folders are where the files can change: the folder of a file, or the folder
// that is the configuration itself, and what a symlink there leads to.
func (w *Watcher) folders() []string {
	dirs := []string{filepath.Dir(w.path)}
	if info, err := os.Stat(w.path); err == nil && info.IsDir() {
		dirs = append(dirs, w.path)
	}
	if real, err := filepath.EvalSymlinks(w.path); err == nil {
		dirs = append(dirs, filepath.Dir(real))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, file := range w.seen.Files() {
		dirs = append(dirs, filepath.Dir(file))
	}
	return dirs
}

// load loads the files and sends what is new about them. It returns true for
// an error that may be gone in a moment: a file that is being written.
func (w *Watcher) load(ctx context.Context, why string, always bool) (unsure bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	cfg, warnings, err := config.Load(w.path)
	if err != nil {
		text := err.Error()
		if !always {
			if text == w.reported {
				return false
			}
			if text != w.suspect {
				w.suspect, w.since = text, time.Now()
			}
			if time.Since(w.since) < filewatch.Confirm {
				return true
			}
		}
		w.reported = text
		w.send(ctx, Reload{Err: err, Why: why})
		return false
	}
	w.suspect = ""
	if !always && w.reported == "" && reflect.DeepEqual(cfg, w.seen) {
		return false
	}
	w.reported, w.seen = "", cfg
	for _, warning := range warnings {
		w.log.Warn(warning.String())
	}
	w.send(ctx, Reload{Config: cfg, Why: why})
	return false
}

func (w *Watcher) send(ctx context.Context, r Reload) {
	select {
	case w.out <- r:
	case <-ctx.Done():
	}
}
