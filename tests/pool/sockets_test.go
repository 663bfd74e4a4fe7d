package pool

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"flotilla/gateway"
	"flotilla/gateway/config"
	"flotilla/gateway/simulator"
	"flotilla/tests/scene"
)

// patience bounds every wait for something that has to happen on real sockets.
const patience = 2 * time.Minute

// onSockets runs a gateway on loopback before the given nodes, and returns its
// address.
func onSockets(t *testing.T, cfg *config.Listener, nodes ...*simulator.Node) string {
	t.Helper()
	cfg.Address = "127.0.0.1:0"
	for _, n := range nodes {
		cfg.Servers = append(cfg.Servers, &config.Server{
			Name: n.Addr(), Endpoint: n.Addr(), URL: n.URL(), Enabled: true, Role: config.Live, Weight: 1,
		})
	}
	return runOnSockets(t, cfg)
}

func runOnSockets(t *testing.T, cfg *config.Listener) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	up, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- gateway.Run(ctx, &config.Config{Listeners: []*config.Listener{cfg}, ShutdownGrace: 5 * time.Second}, gateway.Options{
			Logger: slog.New(slog.NewTextHandler(scene.LogOutput(), nil)),
			Ready:  func(a map[string]net.Addr) { up <- a[cfg.Name].String() },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("the gateway ended with: %v", err)
		}
	})
	select {
	case addr := <-up:
		return addr
	case err := <-done:
		done <- nil
		t.Fatalf("the gateway does not start: %v", err)
		return ""
	}
}

func socketNode(t *testing.T, chain *simulator.Chain, o simulator.Options) *simulator.Node {
	t.Helper()
	n, err := simulator.Start(chain, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("this has not happened within %v: %s", patience, what)
		}
	}
}

// TestThousandSessions connects a thousand clients at once, which stream and
// drop at random, and then wants the process back at its starting size.
func TestThousandSessions(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 3000, Sizes: simulator.Sizes{Traces: 1000}})
	a, b := socketNode(t, chain, simulator.Options{}), socketNode(t, chain, simulator.Options{})
	addr := onSockets(t, scene.Listener(), a, b)
	warmUp(t, addr)
	eventually(t, "the first client's link has gone", func() bool { return links(a, b) == 2 })
	goroutines, heap, files := runtime.NumGoroutine(), heapInUse(), openFiles(t)

	var clients sync.WaitGroup
	for i := range 1000 {
		clients.Go(func() {
			rng := mathrand.New(mathrand.NewPCG(uint64(i), 7))
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				t.Error(err)
				return
			}
			defer conn.Close()
			credit := 1 + rng.Uint32N(200)
			upgradeAndAsk(t, conn, scene.Everything(2, 3000, credit))
			if rng.IntN(4) == 0 {
				return
			}
			// Read some, no more than the credit brings, and leave in the middle
			// of whatever comes.
			_, _ = io.CopyN(io.Discard, conn, rng.Int64N(1000*int64(credit)))
		})
	}
	clients.Wait()
	eventually(t, "all links have gone but the monitors'", func() bool { return links(a, b) == 2 })
	eventually(t, "the goroutines have ended", func() bool { return runtime.NumGoroutine() <= goroutines+5 })
	eventually(t, "the files are closed", func() bool { return openFiles(t) <= files+5 })
	if now := heapInUse(); now > heap+(16<<20) {
		t.Errorf("the heap has grown from %d to %d KiB", heap>>10, now>>10)
	}
}

func warmUp(t *testing.T, addr string) {
	t.Helper()
	c, err := simulator.Dial(t.Context(), "ws://"+addr+"/", simulator.ClientOptions{AckEvery: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ask(scene.Everything(2, 100, 10)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := c.Wait(ctx, func(r simulator.Report) bool { return r.Last.Num == 99 }); err != nil {
		t.Fatal(err)
	}
}

func links(nodes ...*simulator.Node) (n int) {
	for _, node := range nodes {
		open, _ := node.Links()
		n += open
	}
	return n
}

func heapInUse() uint64 {
	runtime.GC()
	// Buffers in pools survive one collection.
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapInuse
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if os.IsNotExist(err) {
		return 0
	}
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// TestCloseFrameArrivesBehindUnreadInput sends more than the gateway reads
// after a breach: closing at once would reset the connection, and the reset
// would take the Close frame with it.
func TestCloseFrameArrivesBehindUnreadInput(t *testing.T) {
	chain := simulator.NewChain(simulator.ChainOptions{Head: 10})
	addr := onSockets(t, scene.Listener(), socketNode(t, chain, simulator.Options{}))
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &rawClient{Conn: conn, br: upgrade(t, conn)}
	bad := binaryFrame(4)
	bad[0] |= 0x40
	c.send(t, append(bad, make([]byte, 4<<20)...))
	if code, reason := c.closedWith(t); code != 1002 || reason != "reserved bits are set" {
		t.Errorf("closed with %d %q", code, reason)
	}
}

// TestTLSOnBothSides streams through a wss listener from a wss node.
func TestTLSOnBothSides(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	t.Setenv("SSL_CERT_FILE", certFile)
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	chain := simulator.NewChain(simulator.ChainOptions{Head: 200, Sizes: simulator.Sizes{Deltas: 100_000}})
	node := socketNode(t, chain, simulator.Options{Listen: func(address string) (net.Listener, error) {
		return tls.Listen("tcp", address, &tls.Config{Certificates: []tls.Certificate{pair}})
	}})
	cfg := scene.Listener()
	cfg.Address = "127.0.0.1:0"
	cfg.TLS = &config.TLS{CertFile: certFile, KeyFile: keyFile}
	cfg.Servers = []*config.Server{{Name: "secure", Endpoint: "wss://" + node.Addr(), URL: "wss://" + node.Addr() + "/", Enabled: true, Role: config.Live, Weight: 1}}
	addr := runOnSockets(t, cfg)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := simulator.Dial(ctx, "ws://"+addr+"/", simulator.ClientOptions{AckEvery: 1, CheckPayload: true,
		Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			d := tls.Dialer{Config: &tls.Config{RootCAs: pool}}
			return d.DialContext(ctx, network, address)
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Ask(scene.Everything(2, 200, 20)); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(ctx, func(r simulator.Report) bool { return r.Last.Num == 199 }); err != nil {
		t.Fatal(err)
	}
	if err := c.Report().Err(); err != nil {
		t.Error(err)
	}
}

// certificate makes a self-signed one for 127.0.0.1.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "127.0.0.1"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(leaf)
	return certFile, keyFile, pool
}
