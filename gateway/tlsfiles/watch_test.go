package tlsfiles

import (
	"flotilla/gateway/filewatch"

	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"flotilla/gateway/config"
)

// records is a log that a test reads.
type records chan slog.Record

func (r records) Enabled(context.Context, slog.Level) bool { return true }
func (r records) WithAttrs([]slog.Attr) slog.Handler       { return r }
func (r records) WithGroup(string) slog.Handler            { return r }
func (r records) Handle(_ context.Context, record slog.Record) error {
	r <- record
	return nil
}

// next waits for a line of the level; other lines fail the test.
func (r records) next(t *testing.T, level slog.Level) slog.Record {
	t.Helper()
	select {
	case got := <-r:
		if got.Level != level {
			t.Fatalf("log line %s %q %v, want level %s", got.Level, got.Message, attrs(got), level)
		}
		return got
	case <-time.After(patience):
		t.Fatalf("no log line of level %s", level)
	}
	panic("unreachable")
}

func attrs(r slog.Record) map[string]string {
	all := map[string]string{}
	r.Attrs(func(a slog.Attr) bool {
		all[a.Key] = a.Value.String()
		return true
	})
	return all
}

// start runs watch until the end of the test, by notifications alone.
func start(t *testing.T, c *Certificates) records {
	t.Helper()
	log := make(records, 100)
	run(t, func(ctx context.Context) { c.watch(ctx, slog.New(log), time.Hour) })
	return log
}

// run calls f in a goroutine, and at the end of the test ends and awaits it.
func run(t *testing.T, f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { f(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

// replace puts data in place by a rename, as editors do.
func replace(t testing.TB, path string, data []byte) {
	t.Helper()
	write(t, path+".new", data)
	must(t, os.Rename(path+".new", path))
}

// mount makes dir look like a Kubernetes volume with this pair: the files are
// links through ..data, which an update swaps.
func mount(t testing.TB, dir, version string, cert, key []byte) {
	t.Helper()
	write(t, filepath.Join(dir, version, "tls.crt"), cert)
	write(t, filepath.Join(dir, version, "tls.key"), key)
	must(t, os.Symlink(version, filepath.Join(dir, "..new")))
	must(t, os.Rename(filepath.Join(dir, "..new"), filepath.Join(dir, "..data")))
	for _, name := range []string{"tls.crt", "tls.key"} {
		if err := os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)); !os.IsExist(err) {
			must(t, err)
		}
	}
}

func TestWatchNotifications(t *testing.T) {
	tests := []struct {
		name   string
		change func(t *testing.T, dir string, cert, key []byte)
	}{
		{"in place", func(t *testing.T, dir string, cert, key []byte) {
			write(t, filepath.Join(dir, "tls.key"), key)
			write(t, filepath.Join(dir, "tls.crt"), cert)
		}},
		{"rename", func(t *testing.T, dir string, cert, key []byte) {
			replace(t, filepath.Join(dir, "tls.crt"), cert)
			replace(t, filepath.Join(dir, "tls.key"), key)
		}},
		{"removed and made again", func(t *testing.T, dir string, cert, key []byte) {
			must(t, os.Remove(filepath.Join(dir, "tls.crt")))
			must(t, os.Remove(filepath.Join(dir, "tls.key")))
			write(t, filepath.Join(dir, "tls.crt"), cert)
			write(t, filepath.Join(dir, "tls.key"), key)
		}},
		{"symlink swap", func(t *testing.T, dir string, cert, key []byte) {
			mount(t, dir, "..2", cert, key)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ca := newAuthority(t)
			dir := t.TempDir()
			cert, key := ca.pair()
			if tt.name == "symlink swap" {
				mount(t, dir, "..1", cert, key)
			} else {
				write(t, filepath.Join(dir, "tls.crt"), cert)
				write(t, filepath.Join(dir, "tls.key"), key)
			}
			c := load(t, &config.TLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")})
			log := start(t, c)

			cert, key = ca.pair()
			tt.change(t, dir, cert, key)
			if got := attrs(log.next(t, slog.LevelInfo))["reloaded"]; got != "1" {
				t.Errorf("reloaded=%s, want 1", got)
			}
			if got := serial(t, c, ""); got != 3 {
				t.Errorf("serial %d is served, want 3", got)
			}
			if c.Reloads() != 1 || c.ReloadFailures() != 0 {
				t.Errorf("%d reloads and %d failures, want 1 and 0", c.Reloads(), c.ReloadFailures())
			}
		})
	}
}

// A change between Load and Watch is not missed.
func TestWatchLooksAtOnce(t *testing.T) {
	ca := newAuthority(t)
	dir := t.TempDir()
	cfg := &config.TLS{}
	cfg.CertFile, cfg.KeyFile = ca.pairIn(dir)
	c := load(t, cfg)
	ca.pairIn(dir)
	start(t, c).next(t, slog.LevelInfo)
	if got := serial(t, c, ""); got != 3 {
		t.Errorf("serial %d is served, want 3", got)
	}
}

// Watch itself, with its poll, ends with its context.
func TestWatchEnds(t *testing.T) {
	cfg := &config.TLS{}
	cfg.CertFile, cfg.KeyFile = newAuthority(t).pairIn(t.TempDir())
	c := load(t, cfg)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log := make(records, 1)
	c.Watch(ctx, slog.New(log))
	if len(log) != 0 || c.Reloads() != 0 {
		t.Errorf("%d log lines and %d reloads without a change", len(log), c.Reloads())
	}
}

// A folder that cannot be watched is told once, and polled.
func TestWatchWithoutFolder(t *testing.T) {
	ca := newAuthority(t)
	dir := filepath.Join(t.TempDir(), "certs")
	cfg := &config.TLS{}
	cfg.CertFile, cfg.KeyFile = ca.pairIn(dir)
	c := load(t, cfg)
	must(t, os.RemoveAll(dir))
	log := make(records, 100)
	run(t, func(ctx context.Context) { c.watch(ctx, slog.New(log), 50*time.Millisecond) })

	if got := attrs(log.next(t, slog.LevelWarn))["folder"]; got != dir {
		t.Errorf("folder=%s, want %s", got, dir)
	}
	if got := log.next(t, slog.LevelWarn); !strings.Contains(attrs(got)["error"], cfg.CertFile) {
		t.Errorf("log line %q %v, want the missing certificate", got.Message, attrs(got))
	}
	cert, key := ca.pair()
	replace(t, cfg.KeyFile, key)
	replace(t, cfg.CertFile, cert)
	// On a slow machine a half-made pair may be told before.
	for got := range log {
		if got.Level == slog.LevelInfo {
			break
		}
	}
	if got := serial(t, c, ""); got != 3 {
		t.Errorf("serial %d is served, want 3", got)
	}
}

// polled is a watch without notifications in fake time.
func polled(t *testing.T, c *Certificates) records {
	t.Helper()
	log := make(records, 100)
	run(t, func(ctx context.Context) {
		filewatch.PollOnly(ctx, filewatch.Poll, func() bool { return c.reload(slog.New(log)) })
	})
	synctest.Wait()
	return log
}

// pass lets fake time pass, and what is due in it happen.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// none fails the test if there was a log line.
func (r records) none(t *testing.T, when string) {
	t.Helper()
	if len(r) > 0 {
		got := <-r
		t.Fatalf("%s: log line %q %v", when, got.Message, attrs(got))
	}
}

func TestPollComparesContent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t)
		key := newKey(t)
		cfg := &config.TLS{CertFile: filepath.Join(t.TempDir(), "both.pem")}
		cfg.KeyFile = cfg.CertFile
		// Same length: text before the PEM is padding.
		file := func() []byte {
			data := join(ca.leaf(key, nil), pkcs8(t, key))
			return join([]byte(strings.Repeat(" ", 4096-len(data))), []byte("\n"), data)
		}
		stamp := time.Now().Add(-time.Hour)
		write(t, cfg.CertFile, file())
		must(t, os.Chtimes(cfg.CertFile, stamp, stamp))
		c := load(t, cfg)
		log := polled(t, c)

		must(t, os.Chtimes(cfg.CertFile, stamp, stamp.Add(time.Minute)))
		pass(filewatch.Poll)
		log.none(t, "after a bare touch")

		write(t, cfg.CertFile, file())
		must(t, os.Chtimes(cfg.CertFile, stamp, stamp))
		pass(filewatch.Poll)
		log.next(t, slog.LevelInfo)
		if got := serial(t, c, ""); got != 3 {
			t.Errorf("serial %d is served, want 3", got)
		}
	})
}

func TestFailedReload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t)
		dir := t.TempDir()
		cfg := &config.TLS{}
		cfg.CertFile, cfg.KeyFile = ca.pairIn(dir) // serial 2
		oldCert, err := os.ReadFile(cfg.CertFile)
		must(t, err)
		c := load(t, cfg)
		log := polled(t, c)
		fails := func(step, want string, count uint64) {
			t.Helper()
			pass(time.Minute)
			got := log.next(t, slog.LevelWarn)
			if !strings.Contains(attrs(got)["error"], want) {
				t.Errorf("%s: error %q, want one with %q", step, attrs(got)["error"], want)
			}
			log.none(t, step+": told again")
			if c.UpToDate() {
				t.Errorf("%s: nobody can see that", step)
			}
			if c.ReloadFailures() != count || c.Reloads() != 0 || serial(t, c, "") != 2 {
				t.Errorf("%s: %d failures, %d reloads, serial %d; want %d, 0, 2",
					step, c.ReloadFailures(), c.Reloads(), serial(t, c, ""), count)
			}
		}

		cert, _ := ca.pair() // serial 3
		write(t, cfg.CertFile, cert)
		fails("mismatch", "does not belong", 1)

		cert, key := ca.pair() // serial 4
		write(t, cfg.CertFile, cert)
		fails("another certificate, same cause", "does not belong", 2)

		must(t, os.Remove(cfg.CertFile))
		fails("gone", "cannot be read", 3)

		write(t, cfg.CertFile, oldCert)
		pass(time.Minute)
		log.none(t, "back to what is in use")
		if !c.UpToDate() {
			t.Error("what is in use is what the files hold, but it counts as stale")
		}

		must(t, os.Remove(cfg.CertFile))
		fails("gone again", "cannot be read", 4)

		write(t, cfg.CertFile, cert)
		write(t, cfg.KeyFile, key)
		pass(filewatch.Poll)
		log.next(t, slog.LevelInfo)
		if c.Reloads() != 1 || serial(t, c, "") != 4 {
			t.Errorf("%d reloads, serial %d; want 1, 4", c.Reloads(), serial(t, c, ""))
		}
		if !c.UpToDate() {
			t.Error("the new pair is in use, but the old failure still counts")
		}
	})
}

// A poll between the writes of certificate and key is nothing to report.
func TestHalfWrittenPairIsNotReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t)
		cfg := &config.TLS{}
		cfg.CertFile, cfg.KeyFile = ca.pairIn(t.TempDir())
		c := load(t, cfg)
		log := polled(t, c)
		cert, key := ca.pair()
		write(t, cfg.CertFile, cert)
		pass(filewatch.Poll + filewatch.Confirm/2)
		write(t, cfg.KeyFile, key)
		pass(filewatch.Confirm / 2)
		log.next(t, slog.LevelInfo)
		if c.ReloadFailures() != 0 || serial(t, c, "") != 3 {
			t.Errorf("%d failures, serial %d; want 0, 3", c.ReloadFailures(), serial(t, c, ""))
		}
	})
}

func TestPairsAreIndependent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t)
		dir := t.TempDir()
		cfg := &config.TLS{}
		cfg.CertFile, cfg.KeyFile = ca.pairIn(filepath.Join(dir, "0"))
		for _, name := range []string{"a", "b"} {
			cert, key := ca.pairIn(filepath.Join(dir, name))
			cfg.SNI = append(cfg.SNI, config.SNI{ServerNames: []string{name}, CertFile: cert, KeyFile: key})
		}
		c := load(t, cfg) // serials 2, 3, 4
		log := polled(t, c)

		write(t, cfg.CertFile, []byte("broken"))
		ca.pairIn(filepath.Join(dir, "a")) // 5
		ca.pairIn(filepath.Join(dir, "b")) // 6
		pass(time.Minute)
		if got := attrs(log.next(t, slog.LevelInfo))["reloaded"]; got != "2" {
			t.Errorf("reloaded=%s, want 2", got)
		}
		if got := attrs(log.next(t, slog.LevelWarn))["error"]; !strings.Contains(got, cfg.CertFile) {
			t.Errorf("error=%s, want %s in it", got, cfg.CertFile)
		}
		for name, want := range map[string]int64{"": 2, "a": 5, "b": 6} {
			if got := serial(t, c, name); got != want {
				t.Errorf("name %q: serial %d, want %d", name, got, want)
			}
		}
		if c.Reloads() != 2 || c.ReloadFailures() != 1 {
			t.Errorf("%d reloads and %d failures, want 2 and 1", c.Reloads(), c.ReloadFailures())
		}
	})
}

func TestExpiredReloadWarns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(t)
		cfg := &config.TLS{}
		cfg.CertFile, cfg.KeyFile = ca.pairIn(t.TempDir())
		c := load(t, cfg)
		log := polled(t, c)
		key := newKey(t)
		end := time.Now().Add(-time.Minute).Truncate(time.Second)
		write(t, cfg.CertFile, ca.leaf(key, func(c *x509.Certificate) { c.NotAfter = end }))
		write(t, cfg.KeyFile, pkcs8(t, key))
		pass(filewatch.Poll)
		if got := attrs(log.next(t, slog.LevelWarn))["warning"]; !strings.Contains(got, cfg.CertFile+": expired") {
			t.Errorf("warning=%s, want %s in it", got, cfg.CertFile)
		}
		log.next(t, slog.LevelInfo)
		if !c.NotAfter().Equal(end) {
			t.Errorf("NotAfter is %s, want %s", c.NotAfter(), end)
		}
	})
}

func TestHandshakesDuringReload(t *testing.T) {
	ca := newAuthority(t)
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	dir := t.TempDir()
	cfg := &config.TLS{}
	cfg.CertFile, cfg.KeyFile = ca.pairIn(dir, "a.test")
	c := load(t, cfg)
	log := start(t, c)

	server := c.Config()
	failed := make(chan error, 1)
	var count sync.WaitGroup
	const clients = 4
	count.Add(clients) // each one's first handshake
	for range clients {
		run(t, func(ctx context.Context) {
			for first := true; ctx.Err() == nil; first = false {
				_, err := handshake(server, &tls.Config{RootCAs: roots, ServerName: "a.test"})
				if first {
					count.Done()
				}
				if err != nil {
					select {
					case failed <- err:
					default:
					}
					return
				}
				c.NotAfter()
			}
		})
	}
	count.Wait()
	for want := int64(3); want < 13; want++ {
		cert, key := ca.pair("a.test")
		replace(t, cfg.CertFile, cert)
		replace(t, cfg.KeyFile, key)
		log.next(t, slog.LevelInfo)
		if got := serial(t, c, "a.test"); got != want {
			t.Errorf("serial %d is served, want %d", got, want)
		}
	}
	select {
	case err := <-failed:
		t.Errorf("a handshake failed during a reload: %v", err)
	default:
	}
}
