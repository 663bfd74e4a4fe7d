package dial

import (
	"bufio"
	"context"
	"crypto/sha1"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// soon is the most that a test waits for something that has to come.
const soon = 30 * time.Second

const abiText = `{"version":"eosio::abi/1.1","variants":[` +
	`{"name":"request","types":["get_status_request_v0"]},{"name":"result","types":["get_status_result_v0"]}]}`

// script is what a fake node does with a connection; it is closed afterwards.
type script func(c net.Conn)

// serve runs a script for each connection to a new port and returns its
// address. At the end of the test all of them have to be over: the dialer has
// closed what it opened.
func serve(t *testing.T, s script) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				if err := c.SetDeadline(time.Now().Add(soon)); err != nil {
					t.Error(err)
				}
				s(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	return l.Addr().String()
}

// untilClosed reads until the dialer closes the connection.
func untilClosed(t *testing.T, c net.Conn) {
	if _, err := io.Copy(io.Discard, c); isTimeout(err) {
		t.Error("the dialer has left its connection open")
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}

// request reads the upgrade request.
func request(t *testing.T, c net.Conn) *http.Request {
	req, err := http.ReadRequest(bufio.NewReader(c))
	if err != nil {
		t.Errorf("no upgrade request: %v", err)
		return &http.Request{Header: http.Header{}}
	}
	return req
}

// switching is the right answer to an upgrade request.
func switching(req *http.Request) string {
	sum := sha1.Sum([]byte(req.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	return "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\nSec-WebSocket-Accept: " +
		base64.StdEncoding.EncodeToString(sum[:]) + "\r\nServer: fake\r\n\r\n"
}

// write sends parts, each with a write of its own. The dialer may be gone.
func write(c net.Conn, parts ...string) {
	for _, p := range parts {
		if _, err := io.WriteString(c, p); err != nil {
			return
		}
	}
}

// behind101 is a node that accepts the upgrade and sends parts; the first goes
// with the answer.
func behind101(t *testing.T, first string, parts ...string) script {
	return func(c net.Conn) {
		write(c, append([]string{switching(request(t, c)) + first}, parts...)...)
		untilClosed(t, c)
	}
}

// trust is a Trust that a test makes.
type trust func(name string) (*tls.Config, error)

func (f trust) Config(name string) (*tls.Config, error) { return f(name) }

// authority is a certificate for 127.0.0.1 and the trust in it.
func authority(t *testing.T) (host *tls.Config, ca trust) {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates}, func(name string) (*tls.Config, error) {
		return &tls.Config{RootCAs: roots, ServerName: name}, nil
	}
}

// opened is what Open gave, within a time.
type opened struct {
	node *Node
	err  error
}

// start begins to open target.
func start(ctx context.Context, d *Dialer, target string) <-chan opened {
	done := make(chan opened, 1)
	go func() {
		n, err := d.Open(ctx, target)
		done <- opened{n, err}
	}()
	return done
}

// wait takes what start gives; the dialer must not take much longer than its
// own timeouts.
func wait(t *testing.T, done <-chan opened) opened {
	t.Helper()
	select {
	case o := <-done:
		if o.node != nil {
			t.Cleanup(o.node.Close)
		}
		return o
	case <-time.After(soon):
		t.Fatal("Open does not return")
		return opened{}
	}
}
