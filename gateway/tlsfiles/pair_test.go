package tlsfiles

import (
	"bytes"
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"flotilla/gateway/config"
)

func TestLoadKeyKinds(t *testing.T) {
	ca := newAuthority(t)
	ec := newKey(t)
	ecDER, err := x509.MarshalECPrivateKey(ec.(*ecdsa.PrivateKey))
	must(t, err)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	must(t, err)
	_, edKey, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	parameters := block("EC PARAMETERS", []byte{6, 8, 42, 134, 72, 206, 61, 3, 1, 7})

	tests := []struct {
		name string
		key  crypto.Signer
		file []byte
	}{
		{"ECDSA PKCS#8", ec, pkcs8(t, ec)},
		{"ECDSA SEC1 after its parameters", ec, join(parameters, block("EC PRIVATE KEY", ecDER))},
		{"RSA PKCS#8", rsaKey, pkcs8(t, rsaKey)},
		{"RSA PKCS#1", rsaKey, block("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(rsaKey))},
		{"Ed25519", edKey, pkcs8(t, edKey)},
		{"after text and an encrypted one", ec, join([]byte("Bag Attributes\n"),
			block("ENCRYPTED PRIVATE KEY", []byte{1}), pkcs8(t, ec))},
		{"the first of two", ec, join(pkcs8(t, ec), pkcs8(t, rsaKey))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			cert := ca.leaf(tt.key, nil, "a.test")
			certFile, keyFile := filepath.Join(dir, "c"), filepath.Join(dir, "k")
			write(t, certFile, join(cert, ca.pem))
			write(t, keyFile, tt.file)
			c := load(t, &config.TLS{CertFile: certFile, KeyFile: keyFile})
			if got := len(c.pairs[0].current.Load().Certificate); got != 2 {
				t.Errorf("chain has %d certificates, want 2", got)
			}

			// One file may hold both, in either order.
			for _, both := range [][]byte{join(tt.file, cert), join(cert, tt.file)} {
				write(t, certFile, both)
				load(t, &config.TLS{CertFile: certFile, KeyFile: certFile})
			}
		})
	}
}

func TestLoadErrors(t *testing.T) {
	ca := newAuthority(t)
	cert, key := ca.pair("a.test")
	_, otherKey := ca.pair("a.test")
	certDER, _ := pem.Decode(cert)
	keyDER, _ := pem.Decode(key)
	damaged := bytes.Replace(cert, []byte("\nMII"), []byte("\n!!!"), 1)
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	must(t, err)
	x25519, err := ecdh.X25519().GenerateKey(rand.Reader)
	must(t, err)
	legacy := pem.EncodeToMemory(&pem.Block{
		Type: "RSA PRIVATE KEY", Bytes: []byte{1, 2, 3},
		Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-256-CBC,00"},
	})

	tests := []struct {
		name string
		// nil leaves the file out.
		cert, key []byte
		// inKey tells that the error names the key file first.
		inKey bool
		want  string
	}{
		{"no certificate file", nil, key, false, "cannot be read"},
		{"empty certificate file", []byte{}, key, false, "holds no PEM certificate"},
		{"only a key in the certificate file", key, key, false, "holds no PEM certificate"},
		{"DER certificate", certDER.Bytes, key, false, "holds no PEM certificate"},
		{"damaged leaf before a good CA", join(damaged, ca.pem), key, false, "only 1 of 2"},
		{"half-written chain", join(cert, ca.pem[:len(ca.pem)/2]), key, false, "only 1 of 2"},
		{"no X.509", block("CERTIFICATE", []byte("no")), key, false, "first certificate is damaged"},
		{"X.509 v1", versionOne(t, certDER.Bytes), key, false, "X.509 version 1"},
		{"no key file", cert, nil, true, "cannot be read"},
		{"empty key file", cert, []byte{}, true, "holds no PEM private key"},
		{"only a certificate in the key file", cert, cert, true, "holds no PEM private key"},
		{"DER key", cert, keyDER.Bytes, true, "holds no PEM private key"},
		{"encrypted PKCS#8", cert, block("ENCRYPTED PRIVATE KEY", []byte{1}), true, "key is encrypted"},
		{"encrypted PKCS#1", cert, legacy, true, "key is encrypted"},
		{"damaged key", cert, block("PRIVATE KEY", []byte{1}), true, "key is damaged"},
		{"damaged PKCS#1", cert, block("RSA PRIVATE KEY", []byte{1}), true, "key is damaged"},
		{"damaged SEC1", cert, block("EC PRIVATE KEY", []byte{1}), true, "key is damaged"},
		{"unknown kind", cert, block("DSA PRIVATE KEY", []byte{1}), true, `unknown kind "DSA PRIVATE KEY"`},
		{"small RSA key", cert, pkcs8(t, small), true, "has 1024 bits"},
		{"key that cannot sign", cert, pkcs8(t, x25519), true, "cannot sign"},
		{"key of another certificate", cert, otherKey, true, "does not belong"},
		{"CA before the leaf", join(ca.pem, cert), key, true, "does not belong"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			cfg := &config.TLS{CertFile: filepath.Join(dir, "c.pem"), KeyFile: filepath.Join(dir, "k.pem")}
			if tt.cert != nil {
				write(t, cfg.CertFile, tt.cert)
			}
			if tt.key != nil {
				write(t, cfg.KeyFile, tt.key)
			}
			_, err := Load(cfg)
			if err == nil {
				t.Fatal("loaded")
			}
			prefix := "certificate file " + cfg.CertFile
			if tt.inKey {
				prefix = "key file " + cfg.KeyFile
			}
			if got := err.Error(); !strings.HasPrefix(got, prefix) || !strings.Contains(got, tt.want) {
				t.Errorf("error %q, want one that starts with %q and contains %q", got, prefix, tt.want)
			}
			if tt.want == "cannot be read" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v does not wrap the cause", err)
			}
		})
	}
}

func TestLoadErrorsOfFileKinds(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := newAuthority(t).pairIn(dir)
	_, err := Load(&config.TLS{CertFile: dir, KeyFile: keyFile})
	if err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a directory: %v", err)
	}
	_, err = Load(&config.TLS{CertFile: certFile, KeyFile: "/dev/zero"})
	if err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a device: %v", err)
	}
	large := filepath.Join(dir, "large")
	write(t, large, make([]byte, maxFileBytes+1))
	_, err = Load(&config.TLS{CertFile: large, KeyFile: keyFile})
	if err == nil || !strings.Contains(err.Error(), "too large") {
		t.Errorf("a large file: %v", err)
	}
}

// An operator mends everything at once, so every pair is told.
func TestLoadTellsAllErrors(t *testing.T) {
	dir := t.TempDir()
	cfg := &config.TLS{CertFile: filepath.Join(dir, "a"), KeyFile: filepath.Join(dir, "a.key")}
	good, goodKey := newAuthority(t).pairIn(dir)
	cfg.SNI = []config.SNI{
		{ServerNames: []string{"b.test"}, CertFile: good, KeyFile: goodKey},
		{ServerNames: []string{"c.test"}, CertFile: filepath.Join(dir, "c"), KeyFile: goodKey},
	}
	_, err := Load(cfg)
	if err == nil {
		t.Fatal("loaded")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 2 || !strings.Contains(lines[0], cfg.CertFile) || !strings.Contains(lines[1], cfg.SNI[1].CertFile) {
		t.Errorf("errors: %q", lines)
	}
}

// versionOne makes an X.509 v1 certificate out of a v3 one. Its signature does
// not fit any more, which nobody looks at.
func versionOne(t testing.TB, der []byte) []byte {
	t.Helper()
	parsed, err := x509.ParseCertificate(der)
	must(t, err)
	var fields []asn1.RawValue
	_, err = asn1.Unmarshal(parsed.RawTBSCertificate, &fields)
	must(t, err)
	// The first field is the version, the last one the extensions.
	const all = 8
	if len(fields) != all {
		t.Fatalf("%d fields in a certificate, want %d", len(fields), all)
	}
	v1, err := asn1.Marshal(struct {
		Body      []asn1.RawValue
		Algorithm pkix.AlgorithmIdentifier
		Signature asn1.BitString
	}{
		fields[1 : all-1],
		pkix.AlgorithmIdentifier{Algorithm: asn1.ObjectIdentifier{1, 2, 840, 10045, 4, 3, 2}},
		asn1.BitString{Bytes: []byte{0}, BitLength: 8},
	})
	must(t, err)
	return block("CERTIFICATE", v1)
}

// FuzzParse: any two files give an error or a pair that can serve.
func FuzzParse(f *testing.F) {
	ca := newAuthority(f)
	cert, key := ca.pair("a.test")
	f.Add(cert, key)
	f.Add(join(cert, ca.pem), join(cert, key))
	f.Add(join(key, cert), block("ENCRYPTED PRIVATE KEY", []byte{1}))
	f.Add(cert[:len(cert)-5], key[:40])
	f.Add(block("CERTIFICATE", nil), block("EC PRIVATE KEY", nil))
	f.Add([]byte{}, []byte("-----BEGIN PRIVATE KEY-----"))
	f.Fuzz(func(t *testing.T, certPEM, keyPEM []byte) {
		p := &pair{certFile: "c", keyFile: "k"}
		got, err := p.parse(certPEM, keyPEM)
		if err != nil {
			return
		}
		signer := got.PrivateKey.(crypto.Signer)
		if !bytes.Equal(got.Certificate[0], got.Leaf.Raw) ||
			!signer.Public().(interface{ Equal(crypto.PublicKey) bool }).Equal(got.Leaf.PublicKey) {
			t.Error("accepted a pair that does not match")
		}
	})
}
