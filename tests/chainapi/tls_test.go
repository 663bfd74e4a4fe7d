package chainapi

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"flotilla/gateway/config"
)

// certificates is a certificate file and a key file for 127.0.0.1.
type certificates struct {
	t    *testing.T
	dir  string
	pool *x509.CertPool
}

func newCertificates(t *testing.T) *certificates {
	return &certificates{t: t, dir: t.TempDir(), pool: x509.NewCertPool()}
}

func (c *certificates) file(name string) string { return filepath.Join(c.dir, name) }

func (c *certificates) files() *config.TLS {
	return &config.TLS{CertFile: c.file("cert.pem"), KeyFile: c.file("key.pem")}
}

func (c *certificates) client() *tls.Config {
	return &tls.Config{RootCAs: c.pool, ServerName: "127.0.0.1"}
}

// ends is when the certificate with a serial number expires.
func ends(serial int64) time.Time { return time.Unix(4_000_000_000+serial, 0) }

// put exchanges both files for new ones.
func (c *certificates) put(serial int64) {
	c.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		c.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: fmt.Sprint(serial)}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: ends(serial), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		c.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		c.t.Fatal(err)
	}
	c.pool.AddCert(leaf)
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		c.t.Fatal(err)
	}
	c.write("key.pem", pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}))
	c.write("cert.pem", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// write puts a file in place as a renewal does.
func (c *certificates) write(name string, data []byte) {
	c.t.Helper()
	if err := os.WriteFile(c.file(name+".new"), data, 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(c.file(name+".new"), c.file(name)); err != nil {
		c.t.Fatal(err)
	}
}

// secured is a client connection that stays.
type secured struct {
	*tls.Conn
	in *bufio.Reader
}

func (c *certificates) dial(s *sockets) *secured {
	c.t.Helper()
	conn, err := tls.Dial("tcp", s.api, c.client())
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { conn.Close() })
	return &secured{conn, bufio.NewReader(conn)}
}

// serial is that of the certificate which the gateway presented.
func (s *secured) serial() int64 { return s.ConnectionState().PeerCertificates[0].SerialNumber.Int64() }

// serves makes a request on the connection.
func (s *secured) serves(t *testing.T, when string) {
	t.Helper()
	if _, err := s.Write([]byte("POST " + getInfo + " HTTP/1.1\r\nHost: x\r\nUser-Agent: u\r\nContent-Length: 0\r\n\r\n")); err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	if a, err := readAnswer(s.in, "POST"); err != nil || a.status != http.StatusOK {
		t.Fatalf("%s: %d %s, %v", when, a.status, a.body, err)
	}
}

// A renewed certificate needs no restart and ends no connection; one that
// cannot be used changes nothing, and shows.
func TestRenewedCertificate(t *testing.T) {
	certs := newCertificates(t)
	certs.put(1)
	s := onSockets(t, nodeWith(http.NotFound), func(api *config.ChainAPI) { api.TLS = certs.files() })
	const (
		expiry  = `flotilla_chain_api_tls_certificate_expiry_timestamp_seconds{listener="test"}`
		current = `flotilla_chain_api_tls_certificate_up_to_date{listener="test"}`
	)
	shows := func(when string, serial int64, upToDate string) {
		t.Helper()
		got, err := strconv.ParseFloat(s.metric(t, expiry), 64)
		if now := s.metric(t, current); err != nil || int64(got) != ends(serial).Unix() || now != upToDate {
			t.Errorf("%s: %v expires at %v, up to date is %s", when, serial, got, now)
		}
	}
	old := certs.dial(s)
	if old.serves(t, "at first"); old.serial() != 1 {
		t.Fatalf("the certificate is %d", old.serial())
	}
	shows("at first", 1, "1")

	certs.put(2)
	eventually(t, "the new certificate is presented", func() bool { return certs.dial(s).serial() == 2 })
	old.serves(t, "on the old connection")
	renewed := certs.dial(s)
	renewed.serves(t, "on a new connection")
	eventually(t, "the replacement is logged", func() bool { return s.log.lines("level=INFO", "certificates were replaced", "port=chain_api") == 1 })
	shows("renewed", 2, "1")

	certs.write("cert.pem", []byte("no certificate"))
	eventually(t, "the failure shows", func() bool { return s.metric(t, current) == "0" })
	if n := s.log.lines("level=WARN", "a certificate could not be replaced", "port=chain_api", certs.file("cert.pem")); n != 1 {
		t.Errorf("the failure is %d times in the log", n)
	}
	if c := certs.dial(s); c.serial() != 2 {
		t.Errorf("the certificate is %d", c.serial())
	}
	old.serves(t, "on the old connection, after the failure")
	renewed.serves(t, "on the newer connection, after the failure")
	shows("after the failure", 2, "0")

	certs.put(3)
	eventually(t, "the repaired certificate is presented", func() bool { return certs.dial(s).serial() == 3 })
	eventually(t, "the failure is over", func() bool { return s.metric(t, current) == "1" })
	old.serves(t, "in the end")
	shows("in the end", 3, "1")
}
