package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// environment sets both variables and returns a Trust that uses them.
func environment(t *testing.T, file, dirs string) *Trust {
	t.Helper()
	t.Setenv("SSL_CERT_FILE", file)
	t.Setenv("SSL_CERT_DIR", dirs)
	return NewTrust()
}

// serves is a server with a certificate of ca for names and IP addresses.
func serves(t *testing.T, ca *authority, names ...string) *tls.Config {
	t.Helper()
	key := newKey(t)
	cert := ca.leaf(key, func(c *x509.Certificate) {
		for _, name := range names {
			if ip := net.ParseIP(name); ip != nil {
				c.IPAddresses = append(c.IPAddresses, ip)
			} else {
				c.DNSNames = append(c.DNSNames, name)
			}
		}
	})
	pair, err := tls.X509KeyPair(cert, pkcs8(t, key))
	must(t, err)
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// accepts dials server as name.
func accepts(t *testing.T, trust *Trust, name string, server *tls.Config) error {
	t.Helper()
	cfg, err := trust.Config(name)
	must(t, err)
	_, err = handshake(server, cfg)
	return err
}

func TestTrustSources(t *testing.T) {
	inFile, inDir, inSecond, nowhere := newAuthority(t), newAuthority(t), newAuthority(t), newAuthority(t)
	root := t.TempDir()
	file := filepath.Join(root, "bundle.pem")
	dir, second := filepath.Join(root, "dir"), filepath.Join(root, "second")
	write(t, file, join([]byte("# a comment\n"), block("CERTIFICATE", []byte("damaged")), inFile.pem))
	write(t, filepath.Join(dir, "any name"), inDir.pem)
	write(t, filepath.Join(dir, "README"), []byte("no certificate"))
	write(t, filepath.Join(dir, "folder", "ca.pem"), nowhere.pem) // folders are not descended into
	must(t, os.Symlink("nothing", filepath.Join(dir, "dangling")))
	write(t, filepath.Join(second, "ca.pem"), inSecond.pem)
	missing := filepath.Join(root, "missing")
	both := dir + string(filepath.ListSeparator) + missing + string(filepath.ListSeparator) + second

	tests := []struct {
		name, file, dirs string
		want             [4]bool // inFile, inDir, inSecond, nowhere
	}{
		{"file", file, "", [4]bool{true, false, false, false}},
		{"folder", "", dir, [4]bool{false, true, false, false}},
		{"folders, one of them missing", "", both, [4]bool{false, true, true, false}},
		{"union", file, both, [4]bool{true, true, true, false}},
		{"missing file beside a folder", missing, dir, [4]bool{false, true, false, false}},
		{"missing folder beside a file", file, missing, [4]bool{true, false, false, false}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			trust := environment(t, tt.file, tt.dirs)
			for i, ca := range []*authority{inFile, inDir, inSecond, nowhere} {
				err := accepts(t, trust, "node.test", serves(t, ca, "node.test"))
				if (err == nil) != tt.want[i] {
					t.Errorf("CA %d: error %v, want success %t", i, err, tt.want[i])
				}
				if _, ok := errors.AsType[x509.UnknownAuthorityError](err); err != nil && !ok {
					t.Errorf("CA %d: error %v is not that of an unknown authority", i, err)
				}
			}
		})
	}
}

func TestTrustOfSystem(t *testing.T) {
	cfg, err := environment(t, "", "").Config("node.test")
	must(t, err)
	if cfg.RootCAs != nil {
		t.Error("empty variables count as set")
	}
	if cfg.InsecureSkipVerify || cfg.MinVersion != tls.VersionTLS12 || cfg.NextProtos != nil {
		t.Errorf("insecure %t, version %s, ALPN %q", cfg.InsecureSkipVerify, tls.VersionName(cfg.MinVersion), cfg.NextProtos)
	}
	ca := newAuthority(t)
	cfg, err = Upstream("node.test")
	must(t, err)
	if _, err := handshake(serves(t, ca, "node.test"), cfg); err == nil {
		t.Error("the system's store trusts a CA of this test")
	}
}

func TestTrustServerNames(t *testing.T) {
	ca := newAuthority(t)
	file := filepath.Join(t.TempDir(), "ca.pem")
	write(t, file, ca.pem)
	trust := environment(t, file, "")
	server := serves(t, ca, "node.test", "*.wild.test", "192.0.2.1", "fe80::1")
	tests := []struct {
		name string
		ok   bool
	}{
		{"node.test", true},
		{"NODE.test", true},
		{"a.wild.test", true},
		{"other.test", false},
		{"192.0.2.1", true},
		{"192.0.2.2", false},
		{"fe80::1", true},
		{"[fe80::1]", true},
		{"[fe80::1%eth0]", true},
		{"fe80:0::1", true},
		{"fe80::2", false},
	}
	for _, tt := range tests {
		if err := accepts(t, trust, tt.name, server); (err == nil) != tt.ok {
			t.Errorf("%s: error %v, want success %t", tt.name, err, tt.ok)
		}
	}
	// Only IP SANs count for an IP address.
	if err := accepts(t, trust, "192.0.2.1", serves(t, ca, "node.test")); err == nil {
		t.Error("an IP address without its SAN was accepted")
	}
}

func TestTrustErrors(t *testing.T) {
	root := t.TempDir()
	missing, empty, full := filepath.Join(root, "missing"), filepath.Join(root, "empty"), filepath.Join(root, "full")
	must(t, os.Mkdir(empty, 0o755))
	for i := range 9 {
		write(t, filepath.Join(full, fmt.Sprint("junk", i)), []byte("junk"))
	}
	tests := []struct {
		name, file, dirs string
		want             []string
	}{
		{"missing file", missing, "", []string{"SSL_CERT_FILE=" + missing, missing + ": cannot be read"}},
		{"missing folder", "", missing, []string{"SSL_CERT_DIR=" + missing, missing + ": cannot be read"}},
		{"empty folder", "", empty, []string{"SSL_CERT_DIR=" + empty, "no file is there"}},
		{"no folder", "", ":", []string{"SSL_CERT_DIR=:", "no file is there"}},
		{"folder for a file", empty, "", []string{"SSL_CERT_FILE=" + empty, "is a directory"}},
		{"both", missing, empty, []string{"SSL_CERT_FILE=" + missing + " and SSL_CERT_DIR=" + empty}},
		{"junk", "", full, []string{"junk0: holds no PEM certificate", "junk4", "and 4 more"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			trust := environment(t, tt.file, tt.dirs)
			cfg, err := trust.Config("node.test")
			if err == nil || cfg != nil {
				t.Fatalf("got a configuration, error %v", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q has no %q", err, want)
				}
			}
		})
	}
}

func TestTrustFollowsChanges(t *testing.T) {
	first, second := newAuthority(t), newAuthority(t)
	dir := t.TempDir()
	file, late := filepath.Join(dir, "ca.pem"), filepath.Join(dir, "late", "ca.pem")
	trust := environment(t, file, filepath.Dir(late))
	if _, err := trust.Config("node.test"); err == nil {
		t.Fatal("trusts something before there is a file")
	}
	// Expect which authorities are trusted, and whether files were parsed.
	var last *x509.CertPool
	expect := func(step string, parsed, one, two bool) {
		t.Helper()
		cfg, err := trust.Config("node.test")
		must(t, err)
		if got := cfg.RootCAs != last; got != parsed {
			t.Errorf("%s: parsed %t, want %t", step, got, parsed)
		}
		last = cfg.RootCAs
		for ca, want := range map[*authority]bool{first: one, second: two} {
			if _, err := handshake(serves(t, ca, "node.test"), cfg); (err == nil) != want {
				t.Errorf("%s: error %v, want success %t", step, err, want)
			}
		}
	}
	write(t, file, first.pem)
	expect("first file", true, true, false)
	expect("no change", false, true, false)
	write(t, late, second.pem)
	expect("new file in a folder", true, true, true)
	must(t, os.Remove(late))
	expect("file removed", true, true, false)
	info, err := os.Stat(file)
	must(t, err)
	write(t, file+".new", second.pem)
	must(t, os.Chtimes(file+".new", info.ModTime(), info.ModTime()))
	must(t, os.Rename(file+".new", file))
	expect("renamed over, same mtime", true, false, true)
	write(t, file, join(first.pem, second.pem))
	expect("written in place", true, true, true)
	expect("no change again", false, true, true)

	must(t, os.Remove(file))
	if _, err := trust.Config("node.test"); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("after the last file went: %v", err)
	}
	write(t, file, first.pem)
	expect("back", true, true, false)
}

func TestTrustConcurrently(t *testing.T) {
	ca := newAuthority(t)
	file := filepath.Join(t.TempDir(), "ca.pem")
	write(t, file, ca.pem)
	trust := environment(t, file, "")
	server := serves(t, ca, "node.test")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				cfg, err := trust.Config("node.test")
				if err == nil {
					_, err = handshake(server, cfg)
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 20 {
		replace(t, file, join(ca.pem, []byte(strings.Repeat("\n", i))))
	}
	wg.Wait()
}

func TestUnreadableKeepsCause(t *testing.T) {
	_, err := readFile(filepath.Join(t.TempDir(), "missing"))
	if !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "missing") {
		t.Errorf("error %q must keep its cause and leave the path out", err)
	}
}
