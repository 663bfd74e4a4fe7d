package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// writePair writes a self-signed certificate with its key into folder.
func writePair(t *testing.T, folder, name string) (certFile, keyFile string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour)}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return writeFile(t, folder, name+".crt", pemText("CERTIFICATE", cert)), writeFile(t, folder, name+".key", pemText("PRIVATE KEY", der))
}

func pemText(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func writeFile(t *testing.T, folder, name, text string) string {
	t.Helper()
	path := filepath.Join(folder, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestTLSRules(t *testing.T) {
	folder := t.TempDir()
	cert, key := writePair(t, folder, "one")
	_, otherKey := writePair(t, folder, "two")
	encrypted := writeFile(t, folder, "encrypted.key", pemText("ENCRYPTED PRIVATE KEY", []byte("x")))
	old := writeFile(t, folder, "old.key", "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\nAAAA\n-----END RSA PRIVATE KEY-----\n")
	damaged := writeFile(t, folder, "damaged.crt", pemText("CERTIFICATE", []byte("x")))
	empty := writeFile(t, folder, "empty", "")
	pair := func(cert, key string) string { return `"tls": {"cert_file": ` + cert + `, "key_file": ` + key + `}` }
	sni := func(entries string) string {
		return `"tls": {"cert_file": "` + cert + `", "key_file": "` + key + `", "sni": [` + entries + `]}`
	}
	entry := func(names string) string {
		return `{"server_names": ` + names + `, "cert_file": "` + cert + `", "key_file": "` + key + `"}`
	}
	q := func(s string) string { return `"` + s + `"` }
	for _, r := range []rule{
		{"no cert", pair(`«"/nonexistent/c"`, q(key)), words("tls.cert_file", "/nonexistent/c", "no such file")},
		{"no key", pair(q(cert), `«"/nonexistent/k"`), words("tls.key_file", "/nonexistent/k", "no such file")},
		{"a folder", pair(`«`+q(folder), q(key)), words("tls.cert_file", folder, "folder")},
		{"empty cert", pair(`«`+q(empty), q(key)), words("tls.cert_file", empty, "no PEM certificate")},
		{"damaged cert", pair(`«`+q(damaged), q(key)), words("tls.cert_file", damaged, "damaged")},
		{"empty key", pair(q(cert), `«`+q(empty)), words("tls.key_file", empty, "no PEM private key")},
		{"encrypted key", pair(q(cert), `«`+q(encrypted)), words("tls.key_file", encrypted, "encrypted")},
		{"old encrypted key", pair(q(cert), `«`+q(old)), words("tls.key_file", old, "encrypted")},
		{"key of another", pair(q(cert), `«`+q(otherKey)), words("tls.key_file", otherKey, cert)},
		{"sni without names", sni(entry(`«[]`)), words("tls.sni[0].server_names", "empty")},
		{"sni name", sni(entry(`«["a_b.test"]`)), words("tls.sni[0].server_names", "a_b.test")},
		{"sni wildcard of one label", sni(entry(`«["*.com"]`)), words("tls.sni[0].server_names", "*.com")},
		{"sni twice", sni(entry(`["a.test"]`) + `, ` + entry(`«["A.test "]`)), words("tls.sni[1].server_names", "a.test", "before")},
		{"sni key", sni(`{"server_names": ["a.test"], "cert_file": "` + cert + `", "key_file": «"` + otherKey + `"}`), words("tls.sni[0].key_file", otherKey)},
		{"sni cert missing", sni(`«{"server_names": ["a.test"], "key_file": "` + key + `"}`), words("tls.sni[0].cert_file", "missing")},
	} {
		t.Run(r.name, func(t *testing.T) { expectProblem(t, "config.json", jsonWith(r.text), r.words...) })
	}
	t.Run("top tls is loaded although each listener has its own", func(t *testing.T) {
		own := `, "tls": {"cert_file": "` + cert + `", "key_file": "` + key + `"}`
		expectProblem(t, "config.json", many(`[`+listener("x", "17000", own)+`]`, pair(`«"/nonexistent/c"`, q(key))), "tls.cert_file")
	})
	t.Run("HCL", func(t *testing.T) {
		expectProblem(t, "flotilla.hcl", hclWith("", `  tls {
    cert_file = "`+cert+`"
    key_file  = "`+key+`"
    sni {
      server_names = ["a.test"]
      cert_file    = "`+cert+`"
      key_file     = «"`+otherKey+`"
    }
  }`), `listener "eos": tls.sni.key_file`, otherKey)
	})
}

func TestTLSIsInherited(t *testing.T) {
	folder := t.TempDir()
	cert, key := writePair(t, folder, "one")
	cert2, key2 := writePair(t, folder, "two")
	pair := func(cert, key, more string) string {
		return `{"cert_file": "` + cert + `", "key_file": "` + key + `"` + more + `}`
	}
	cfg, _, err := Parse("config.json", []byte(many(`[`+listener("x", "17000", "")+`, `+listener("y", "17001", `, "tls": `+pair(cert2, key2, ""))+`, `+listener("z", "17002", `, "tls": null`)+`]`,
		`"tls": `+pair(cert, key, `, "sni": [{"server_names": [" A.Test", "*.b.test"], "cert_file": "`+cert2+`", "key_file": "`+key2+`"}]`))))
	if err != nil {
		t.Fatal(err)
	}
	x, y, z := cfg.Listeners[0].TLS, cfg.Listeners[1].TLS, cfg.Listeners[2].TLS
	if x.CertFile != cert || z.CertFile != cert || y.CertFile != cert2 || len(y.SNI) != 0 {
		t.Errorf("got %+v, %+v and %+v", x, y, z)
	}
	if want := []string{"a.test", "*.b.test"}; len(x.SNI) != 1 || !slices.Equal(x.SNI[0].ServerNames, want) || x.SNI[0].KeyFile != key2 {
		t.Errorf("the entries are %+v", x.SNI)
	}
}

func TestServerNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"a": true, "a.b": true, "1.2.3.4": true, "-a.b": true, "xn--nxasmq6b": true, "*.a.b": true,
		"": false, ".a": false, "a.": false, "a..b": false, "a_b": false, "ä.b": false, "*.b": false, "*": false, "a.*.b": false, "*.": false,
	} {
		if isServerName(name) != ok {
			t.Errorf("%q: want %v", name, ok)
		}
	}
}

func TestABIFileIsRead(t *testing.T) {
	abi := `{"version": "eosio::abi/1.1", "variants": []}`
	path := writeFile(t, t.TempDir(), "abi", abi)
	cfg, warnings, err := Parse("config.json", []byte(jsonWith(`"topology": "stitched"`, `"stitching": {"abi_file": "`+path+`"}`)))
	if err != nil || len(warnings) > 0 {
		t.Fatal(err, warnings)
	}
	if s := cfg.Listeners[0].Stitching; s.ABI != abi || s.ABIFile != path {
		t.Errorf("got %+v", s)
	}
}

func TestFileFunctionNamesThePath(t *testing.T) {
	_, _, err := Parse("flotilla.hcl", []byte(hclWith("", `  max_connections = file("/nonexistent/x")`)))
	if err == nil || !strings.Contains(err.Error(), "/nonexistent/x") {
		t.Errorf("got %v", err)
	}
}
