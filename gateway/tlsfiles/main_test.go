package tlsfiles

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.uber.org/goleak"

	"flotilla/gateway/config"
)

// patience bounds what would otherwise hang a test.
const patience = 30 * time.Second

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// authority is a CA for one test.
type authority struct {
	t    testing.TB
	cert *x509.Certificate
	key  crypto.Signer
	// pem is the CA certificate.
	pem    []byte
	serial int64
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{t: t, key: newKey(t), serial: 1}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: t.Name() + " CA"},
		NotBefore: time.Now().Add(-24 * time.Hour), NotAfter: time.Now().AddDate(10, 0, 0),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	must(t, err)
	a.cert, err = x509.ParseCertificate(der)
	must(t, err)
	a.pem = block("CERTIFICATE", der)
	return a
}

// leaf issues a certificate; each has a serial of its own. change may be nil.
func (a *authority) leaf(key crypto.Signer, change func(*x509.Certificate), names ...string) []byte {
	a.t.Helper()
	a.serial++
	template := &x509.Certificate{
		SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: "leaf"}, DNSNames: names,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature,
	}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	must(a.t, err)
	return block("CERTIFICATE", der)
}

// pair issues a certificate for names with a new key, both as PEM.
func (a *authority) pair(names ...string) (cert, key []byte) {
	a.t.Helper()
	k := newKey(a.t)
	return a.leaf(k, nil, names...), pkcs8(a.t, k)
}

// pairIn writes a new pair into dir and returns its paths.
func (a *authority) pairIn(dir string, names ...string) (certFile, keyFile string) {
	a.t.Helper()
	cert, key := a.pair(names...)
	certFile, keyFile = filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	write(a.t, certFile, cert)
	write(a.t, keyFile, key)
	return certFile, keyFile
}

func newKey(t testing.TB) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return key
}

func pkcs8(t testing.TB, key crypto.PrivateKey) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	must(t, err)
	return block("PRIVATE KEY", der)
}

func block(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func join(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(t, os.WriteFile(path, data, 0o600))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func load(t testing.TB, cfg *config.TLS) *Certificates {
	t.Helper()
	c, err := Load(cfg)
	must(t, err)
	return c
}

// handshake connects client to server and returns the client's view, or the
// client's error. It needs a real socket: over a net.Pipe, which has no buffer,
// two sides that both send an alert wait for each other.
func handshake(server, client *tls.Config) (state tls.ConnectionState, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return state, err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		far, err := listener.Accept()
		if err != nil {
			return
		}
		defer far.Close()
		_ = far.SetDeadline(time.Now().Add(patience))
		_ = tls.Server(far, server).Handshake()
	}()
	defer func() {
		listener.Close()
		<-done
	}()
	near, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		return state, err
	}
	defer near.Close()
	conn := tls.Client(near, client)
	err = errors.Join(near.SetDeadline(time.Now().Add(patience)), conn.Handshake())
	return conn.ConnectionState(), err
}

// serial is the serial number of the certificate that c presents for name.
func serial(t testing.TB, c *Certificates, name string) int64 {
	t.Helper()
	cert, err := c.Config().GetCertificate(&tls.ClientHelloInfo{ServerName: name})
	must(t, err)
	return cert.Leaf.SerialNumber.Int64()
}
