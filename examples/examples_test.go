// Package examples tests that every example configuration is valid.
package examples

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"flotilla/gateway/config"
)

func TestConfigurationsAreValid(t *testing.T) {
	folder := t.TempDir()
	t.Setenv("CERTS", folder)
	for _, name := range []string{"default", "example.org"} {
		writePair(t, filepath.Join(folder, name))
	}
	for _, c := range []struct {
		file              string
		listeners, server int
		single            bool
	}{
		{"pool.hcl", 1, 2, false},
		{"multi-network.hcl", 2, 4, false},
		{"fleet-router.json", 1, 2, true},
		{"tls.hcl", 1, 2, false},
		{"stitched.hcl", 1, 6, false},
		{"stitched.json", 1, 6, false},
	} {
		cfg, warnings, err := config.Load(c.file)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, w := range warnings {
			t.Error(w)
		}
		if len(cfg.Listeners) != c.listeners || len(cfg.Listeners[0].Servers) != c.server || cfg.Single != c.single {
			t.Errorf("%s has %d listeners, %d servers in the first; single is %v", c.file, len(cfg.Listeners), len(cfg.Listeners[0].Servers), cfg.Single)
		}
	}
}

// writePair writes a self-signed certificate and its key.
func writePair(t *testing.T, path string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []struct {
		name, kind string
		der        []byte
	}{{path + ".crt", "CERTIFICATE", cert}, {path + ".key", "PRIVATE KEY", der}} {
		text := pem.EncodeToMemory(&pem.Block{Type: f.kind, Bytes: f.der})
		if err := os.WriteFile(f.name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
