// Package filewatch tells when files may have changed: by notifications, and
// by a slow poll for what no notification tells.
package filewatch

import (
	"context"
	"log/slog"
	"time"

	"github.com/fsnotify/fsnotify"
)

const (
	// Poll finds what no notification tells: other file systems, replaced
	// folders, targets of symlinks (spec "config" 2.8).
	Poll = 5 * time.Second
	// Settle lets a writer finish its second file.
	Settle = 100 * time.Millisecond
	// Confirm is the time after which a failure must still be there to be
	// reported: files that belong together are rarely written at one moment.
	Confirm = time.Second
)

// Watch calls look at once, after anything has happened in one of the folders,
// and every poll, until ctx ends; it then returns with nothing left running.
// look compares contents itself, and returns true when it saw something too new
// to count, so that it is called again after Confirm.
//
// folders are the parents of the files, asked for anew at each poll: a rename
// or a symlink swap happens there, and would end a watch on the file itself.
// What kind of files they are shows in the log line about a folder that cannot
// be watched.
func Watch(ctx context.Context, log *slog.Logger, kind string, folders func() []string, poll time.Duration, look func() (unsure bool)) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		log.Warn("no file notifications, files are only polled", "files", kind, "error", err, "interval", poll)
		PollOnly(ctx, poll, look)
		return
	}
	// Closing fails only for a watcher that is closed already.
	defer func() { _ = watcher.Close() }()

	warned := false
	follow(ctx, watcher, poll, func() {
		// Folders come and go, so each poll adds them anew; one that is
		// watched already stays as it is.
		for _, dir := range folders() {
			if err := watcher.Add(dir); err != nil && !warned {
				warned = true
				log.Warn("no file notifications for a folder, it is only polled", "files", kind, "folder", dir, "error", err, "interval", poll)
			}
		}
	}, look)
}

// PollOnly is Watch without notifications.
func PollOnly(ctx context.Context, poll time.Duration, look func() (unsure bool)) {
	follow(ctx, nil, poll, func() {}, look)
}

// follow is the loop of Watch; a nil watcher leaves only the poll. rewatch is
// called before the first look and before each poll.
func follow(ctx context.Context, watcher *fsnotify.Watcher, poll time.Duration, rewatch func(), look func() bool) {
	var events <-chan fsnotify.Event
	var lost <-chan error
	if watcher != nil {
		events, lost = watcher.Events, watcher.Errors
	}
	ticker := time.NewTicker(poll)
	defer ticker.Stop()

	var settled, confirmed <-chan time.Time
	see := func() {
		if look() && confirmed == nil {
			confirmed = time.After(Confirm)
		}
	}
	rewatch()
	see()
	for {
		select {
		case <-ctx.Done():
			return
		case <-events:
			// Not put off by further events: a busy folder must not keep a
			// change waiting.
			if settled == nil {
				settled = time.After(Settle)
			}
		case <-lost:
			if settled == nil {
				settled = time.After(Settle)
			}
		case <-settled:
			settled = nil
			see()
		case <-confirmed:
			confirmed = nil
			see()
		case <-ticker.C:
			rewatch()
			see()
		}
	}
}
