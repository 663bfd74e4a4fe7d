package evm

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"flotilla/gateway/config"
	"flotilla/gateway/simulator"

	"github.com/gorilla/websocket"
)

// authority is a private CA.
type authority struct {
	t      *testing.T
	cert   *x509.Certificate
	key    crypto.Signer
	serial int64
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{t: t, key: newKey(t), serial: 1}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "private CA"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err == nil {
		a.cert, err = x509.ParseCertificate(der)
	}
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func newKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue makes a certificate for an address that is valid until then. Each has a
// serial of its own.
func (a *authority) issue(address string, until time.Time) tls.Certificate {
	a.t.Helper()
	a.serial++
	key := newKey(a.t)
	template := &x509.Certificate{SerialNumber: big.NewInt(a.serial), Subject: pkix.Name{CommonName: "node"}, IPAddresses: []net.IP{net.ParseIP(address)},
		NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until, KeyUsage: x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// trusted has the product trust this CA and no other one.
func (a *authority) trusted() {
	a.t.Helper()
	file := filepath.Join(a.t.TempDir(), "ca.pem")
	a.write(file, "CERTIFICATE", a.cert.Raw)
	a.t.Setenv("SSL_CERT_FILE", file)
	a.t.Setenv("SSL_CERT_DIR", "")
}

// install writes a new certificate for 127.0.0.1 where the product reads it.
func (a *authority) install(files *config.TLS) {
	a.t.Helper()
	pair := a.issue("127.0.0.1", time.Now().Add(time.Hour))
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		a.t.Fatal(err)
	}
	a.write(files.CertFile, "CERTIFICATE", pair.Certificate[0])
	a.write(files.KeyFile, "PRIVATE KEY", key)
}

// write puts a file in place in one step.
func (a *authority) write(file, kind string, der []byte) {
	a.t.Helper()
	err := os.WriteFile(file+".new", pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
	if err == nil {
		err = os.Rename(file+".new", file)
	}
	if err != nil {
		a.t.Fatal(err)
	}
}

// client is the configuration of a client that trusts the CA.
func (a *authority) client() *tls.Config {
	roots := x509.NewCertPool()
	roots.AddCert(a.cert)
	return &tls.Config{RootCAs: roots}
}

// secure opens the port of a node with a certificate.
func secure(n *simulator.EVMNode, pair tls.Certificate) *httptest.Server {
	p := httptest.NewUnstartedServer(n)
	p.Config.ErrorLog = log.New(io.Discard, "", 0) // Refused certificates are what the test is about.
	p.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	p.StartTLS()
	return p
}

// Nodes over https and wss serve when their certificate is one of a trusted CA,
// for their address and valid. Others are not used, and the log says why.
func TestSecureNodes(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	ca.trusted()
	valid := time.Now().Add(time.Hour)
	pairs := []tls.Certificate{
		ca.issue("127.0.0.1", valid), ca.issue("192.0.2.1", valid), ca.issue("127.0.0.1", time.Now().Add(-time.Hour)), other.issue("127.0.0.1", valid),
	}
	s := newNodes(t, len(pairs)+1, func(i int, n *simulator.EVMNode) *httptest.Server {
		if i == len(pairs) {
			return httptest.NewServer(n) // It speaks plaintext, and is configured as https.
		}
		return secure(n, pairs[i])
	})
	s.ports[len(pairs)].URL = "https" + strings.TrimPrefix(s.ports[len(pairs)].URL, "http")
	s.start(s.config(settings))
	for i, why := range []string{"certificate is valid for 192.0.2.1, not 127.0.0.1", "certificate has expired", "certificate signed by unknown authority", "does not look like a TLS handshake"} {
		name := fmt.Sprintf("node-%d", i+1)
		eventually(t, name+" is named with: "+why, func() bool { return s.log.line("does not answer", "server="+name, why) })
	}
	s.healthy(1)
	for range 20 {
		if a := s.call("eth_getBalance", `["0xaa","latest"]`); a.node != "node-0" || a.number() != 100 {
			t.Fatal(a)
		}
	}
	c := s.dial()
	sub := c.subscribe(1, `["newHeads"]`)
	s.mine()
	eventually(t, "a head over wss", func() bool { got := c.got(sub); return len(got) == 1 && got[0] == 101 })
	for i, n := range s.nodes[1:] {
		if n.Calls("eth_getBlockByNumber")+n.Calls("eth_subscribe") > 0 {
			t.Errorf("node-%d was asked", i+1)
		}
	}
}

// A node that serves HTTP, and whose wss endpoint cannot be trusted, is named: it
// answers calls, its heads are polled, and subscriptions are with the others.
func TestUntrustedWebSocket(t *testing.T) {
	ca, other := newAuthority(t), newAuthority(t)
	ca.trusted()
	s := newNodes(t, 2, func(_ int, n *simulator.EVMNode) *httptest.Server { return httptest.NewServer(n) })
	untrusted := secure(s.nodes[0], other.issue("127.0.0.1", time.Now().Add(time.Hour)))
	t.Cleanup(untrusted.Close)
	s.start(s.config(settings + fmt.Sprintf("  server \"node-0\" {\n    endpoint = %q\n    ws_endpoint = %q\n  }\n",
		s.ports[0].URL, "wss"+strings.TrimPrefix(untrusted.URL, "https"))))
	s.healthy(2)
	eventually(t, "node-0 is named", func() bool { return s.log.line("level=WARN", "WebSocket", "server=node-0", "unknown authority") })
	c := s.dial()
	sub := c.subscribe(1, `["newHeads"]`)
	head := s.chain.Mine(1)
	s.nodes[0].Import(head)
	s.nodes[1].Import(head)
	s.seen()
	eventually(t, "the head", func() bool { return len(c.got(sub)) == 1 })
	if s.nodes[0].Calls("eth_subscribe") > 0 {
		t.Error("node-0 has a subscription")
	}
}

// A node whose certificate expires is set aside like one that is dead, with the
// reason, and comes back with a new one.
func TestCertificateOfANodeExpires(t *testing.T) {
	ca := newAuthority(t)
	ca.trusted()
	current := make(chan tls.Certificate, 1)
	current <- ca.issue("127.0.0.1", time.Now().Add(time.Hour))
	exchange := func(pair tls.Certificate) {
		<-current
		current <- pair
	}
	s := newNodes(t, 2, func(i int, n *simulator.EVMNode) *httptest.Server {
		if i == 0 {
			return httptest.NewServer(n)
		}
		p := httptest.NewUnstartedServer(n)
		p.Config.ErrorLog = log.New(io.Discard, "", 0)
		p.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			pair := <-current
			current <- pair
			return &tls.Config{Certificates: []tls.Certificate{pair}, SessionTicketsDisabled: true}, nil
		}}
		p.StartTLS()
		return p
	})
	s.start(s.config(settings))
	s.healthy(2)
	exchange(ca.issue("127.0.0.1", time.Now().Add(-time.Hour)))
	s.ports[1].CloseClientConnections()
	s.healthy(1)
	if !s.log.line("a node was evicted", "server=node-1", "certificate has expired") {
		t.Error("the log does not tell why node-1 was evicted")
	}
	for range 10 {
		if a := s.call("eth_getBalance", `["0xaa","latest"]`); a.Error != nil || a.node != "node-0" {
			t.Fatal(a)
		}
	}
	exchange(ca.issue("127.0.0.1", time.Now().Add(time.Hour)))
	s.healthy(2)
}

// Clients over https and wss: a certificate is exchanged under them, and none is
// cut off.
func TestSecureClients(t *testing.T) {
	ca, dir := newAuthority(t), t.TempDir()
	files := &config.TLS{CertFile: filepath.Join(dir, "tls.crt"), KeyFile: filepath.Join(dir, "tls.key")}
	ca.install(files)
	s := newNodes(t, 2, func(_ int, n *simulator.EVMNode) *httptest.Server { return httptest.NewServer(n) })
	cfg := s.config(settings)
	cfg.EVM[0].TLS = files
	s.start(cfg)
	s.healthy(2)
	// serial asks over HTTPS and returns the certificate of the connection.
	serial := func(client *http.Client) int64 {
		t.Helper()
		resp, text, err := post(client, "https://"+s.addr+"/", call(1, "eth_blockNumber", "[]"))
		if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(text), `"result":"0x`) {
			t.Fatalf("%s %v", text, err)
		}
		return resp.TLS.PeerCertificates[0].SerialNumber.Int64()
	}
	newClient := func() *http.Client {
		c := &http.Client{Transport: &http.Transport{TLSClientConfig: ca.client()}, Timeout: 20 * time.Second}
		t.Cleanup(c.CloseIdleConnections)
		return c
	}
	kept := newClient()
	if got := serial(kept); got != 2 {
		t.Fatalf("the certificate has the serial %d", got)
	}
	d := websocket.Dialer{TLSClientConfig: ca.client()}
	conn, _, err := d.Dial("wss://"+s.addr+"/", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := s.listen(conn)
	sub := c.subscribe(1, `["newHeads"]`)
	s.mine()
	eventually(t, "a head before", func() bool { return len(c.got(sub)) == 1 })

	ca.install(files)
	eventually(t, "new connections get the new certificate", func() bool {
		fresh := newClient()
		fresh.Transport.(*http.Transport).DisableKeepAlives = true
		return serial(fresh) == 3
	})
	if got := serial(kept); got != 2 {
		t.Fatalf("the connection that was there has ended: the serial is %d", got)
	}
	s.mine()
	eventually(t, "a head after", func() bool { return len(c.got(sub)) == 2 })
	if a := c.call(2, "eth_getBalance", `["0xaa","latest"]`); a.number() != 102 {
		t.Fatal(a)
	}

	// Whoever speaks plaintext gets no answer.
	if resp, _, err := post(s.client, "http://"+s.addr+"/", call(1, "eth_blockNumber", "[]")); err == nil {
		t.Fatalf("plaintext is answered with %d", resp.StatusCode)
	}
	// A reload makes it a plaintext port for those to come, and leaves the others.
	s.apply(s.config(settings))
	eventually(t, "plaintext is answered", func() bool {
		a, err := ask(s.client, "http://"+s.addr+"/", "eth_blockNumber", "[]")
		return err == nil && a.number() == 102
	})
	s.mine()
	eventually(t, "a head over wss still", func() bool { return len(c.got(sub)) == 3 })
}
