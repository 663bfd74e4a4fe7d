package tlsfiles

import (
	"crypto/tls"
	"crypto/x509"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flotilla/gateway/config"
)

func TestSelection(t *testing.T) {
	ca := newAuthority(t)
	dir := t.TempDir()
	// Serial 2 is the default, entry i has serial 3+i.
	cfg := &config.TLS{}
	cfg.CertFile, cfg.KeyFile = ca.pairIn(filepath.Join(dir, "default"))
	for i, names := range [][]string{
		{"*.wild.test", "first.test"},
		{"exact.wild.test", " MiXed.test "},
		{"*.sub.wild.test", "single", "first.test"},
	} {
		cert, key := ca.pairIn(filepath.Join(dir, string(rune('a'+i))))
		cfg.SNI = append(cfg.SNI, config.SNI{ServerNames: names, CertFile: cert, KeyFile: key})
	}
	c := load(t, cfg)
	tests := []struct {
		name string
		want int64
	}{
		{"", 2},
		{"other.test", 2},
		{"x.wild.test", 3},
		{"X.WILD.Test", 3},
		{"first.test", 3}, // listed twice: the first entry has it
		{"exact.wild.test", 4},
		{"EXACT.wild.test", 4},
		{"mixed.test", 4},
		{"MIXED.TEST", 4},
		{"wild.test", 2},
		{".wild.test", 2},
		{"a.b.wild.test", 2},
		{"sub.wild.test", 3},
		{"a.sub.wild.test", 5},
		{"*.wild.test", 3},
		{"single", 5},
		{"test", 2},
		{".", 2},
	}
	for _, tt := range tests {
		if got := serial(t, c, tt.name); got != tt.want {
			t.Errorf("name %q: serial %d, want %d", tt.name, got, tt.want)
		}
	}
}

func TestConfigHandshake(t *testing.T) {
	ca := newAuthority(t)
	roots := x509.NewCertPool()
	roots.AddCert(ca.cert)
	cfg := &config.TLS{}
	dir := t.TempDir()
	cfg.CertFile, cfg.KeyFile = ca.pairIn(filepath.Join(dir, "default"), "default.test")
	cert, key := ca.pairIn(filepath.Join(dir, "sni"), "*.wild.test")
	cfg.SNI = []config.SNI{{ServerNames: []string{"*.wild.test"}, CertFile: cert, KeyFile: key}}
	server := load(t, cfg).Config()

	tests := []struct {
		name    string
		version uint16
		ok      bool
	}{
		{"default.test", tls.VersionTLS13, true},
		{"default.test", tls.VersionTLS12, true},
		{"x.wild.test", tls.VersionTLS13, true},
		{"default.test", tls.VersionTLS11, false},
		{"default.test", tls.VersionTLS10, false},
	}
	for _, tt := range tests {
		state, err := handshake(server, &tls.Config{
			RootCAs: roots, ServerName: tt.name, MinVersion: tt.version, MaxVersion: tt.version,
			NextProtos: []string{"h2", "http/1.1"},
		})
		if (err == nil) != tt.ok {
			t.Errorf("%s with %s: error %v, want success %t", tt.name, tls.VersionName(tt.version), err, tt.ok)
		}
		if state.NegotiatedProtocol != "" {
			t.Errorf("%s: ALPN %q was selected", tt.name, state.NegotiatedProtocol)
		}
	}
}

func TestExpiry(t *testing.T) {
	ca := newAuthority(t)
	dir := t.TempDir()
	now := time.Now().Truncate(time.Second)
	issue := func(name string, from, to time.Time) config.SNI {
		key := newKey(t)
		entry := config.SNI{CertFile: filepath.Join(dir, name+".crt"), KeyFile: filepath.Join(dir, name+".key")}
		write(t, entry.CertFile, ca.leaf(key, func(c *x509.Certificate) { c.NotBefore, c.NotAfter = from, to }))
		write(t, entry.KeyFile, pkcs8(t, key))
		return entry
	}
	good := issue("good", now.Add(-time.Hour), now.Add(time.Hour))
	old := issue("old", now.Add(-2*time.Hour), now.Add(-time.Minute))
	early := issue("early", now.Add(time.Hour), now.Add(2*time.Hour))

	c := load(t, &config.TLS{CertFile: good.CertFile, KeyFile: good.KeyFile})
	if got := c.Warnings(); got != nil {
		t.Errorf("warnings of a valid certificate: %q", got)
	}
	if got, want := c.NotAfter(), now.Add(time.Hour); !got.Equal(want) {
		t.Errorf("NotAfter is %s, want %s", got, want)
	}

	c = load(t, &config.TLS{CertFile: good.CertFile, KeyFile: good.KeyFile, SNI: []config.SNI{early, old}})
	got := c.Warnings()
	if len(got) != 2 || !strings.Contains(got[0], early.CertFile+": not valid before") ||
		!strings.Contains(got[1], old.CertFile+": expired at") {
		t.Errorf("warnings: %q", got)
	}
	if got, want := c.NotAfter(), now.Add(-time.Minute); !got.Equal(want) {
		t.Errorf("NotAfter is %s, want the earliest, %s", got, want)
	}
}
