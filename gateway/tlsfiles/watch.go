package tlsfiles

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"flotilla/gateway/filewatch"
)

// Watch replaces pairs whose files change, until ctx ends; it then returns with
// nothing left running. The caller owns the goroutine and names the port in
// log. New handshakes use a new pair at once, open connections are untouched.
//
// A pair is replaced only when both of its files load and match; pairs do not
// wait for each other. After a failure the old pair stays in use, and each
// distinct failure is logged once, at warn. Success is logged at info with the
// number of pairs that were replaced.
func (c *Certificates) Watch(ctx context.Context, log *slog.Logger) {
	c.watch(ctx, log, filewatch.Poll)
}

func (c *Certificates) watch(ctx context.Context, log *slog.Logger, poll time.Duration) {
	filewatch.Watch(ctx, log, "certificates", c.folders, poll, func() bool { return c.reload(log) })
}

// folders are the parents of all files: a rename or a symlink swap happens
// there, and would end a watch on the file itself.
func (c *Certificates) folders() []string {
	var dirs []string
	seen := map[string]bool{}
	for _, p := range c.pairs {
		for _, file := range []string{p.certFile, p.keyFile} {
			if dir := filepath.Dir(file); !seen[dir] {
				seen[dir] = true
				dirs = append(dirs, dir)
			}
		}
	}
	return dirs
}

// reload looks at every pair once. It returns true if a failure is too new to
// count, so that another look is needed.
func (c *Certificates) reload(log *slog.Logger) (unsure bool) {
	replaced := 0
	now := time.Now()
	defer c.count()
	for _, p := range c.pairs {
		ok, what, err := p.load()
		if err != nil {
			unsure = c.fail(p, failure{what, err.Error()}, now, log) || unsure
			continue
		}
		p.suspect, p.reported = failure{}, failure{}
		if !ok {
			continue
		}
		replaced++
		if text := p.warning(now); text != "" {
			log.Warn("a new certificate is out of its dates", "warning", text)
		}
	}
	if replaced > 0 {
		c.reloads.Add(uint64(replaced))
		log.Info("certificates were replaced", "reloaded", replaced)
	}
	return unsure
}

// count takes in which pairs have failed.
func (c *Certificates) count() {
	n := int64(0)
	for _, p := range c.pairs {
		if p.reported != (failure{}) {
			n++
		}
	}
	c.stale.Store(n)
}

// fail reports f once it has lasted for filewatch.Confirm. It returns true before that.
func (c *Certificates) fail(p *pair, f failure, now time.Time, log *slog.Logger) (unsure bool) {
	if f == p.reported {
		return false
	}
	if f != p.suspect {
		p.suspect, p.since = f, now
	}
	if now.Sub(p.since) < filewatch.Confirm {
		return true
	}
	p.reported = f
	c.failures.Add(1)
	log.Warn("a certificate could not be replaced, the old one stays in use", "error", f.text)
	return false
}
