package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"
)

// connect connects to target, with TLS when that is its scheme. Its error is an
// *Error.
func (d *Dialer) connect(ctx context.Context, target string) (net.Conn, *url.URL, error) {
	u, err := parseTarget(target)
	if err != nil {
		return nil, nil, &Error{Unreachable, err}
	}
	limit, cancel := context.WithTimeout(ctx, d.Timeout)
	defer cancel()
	connect := d.Connect
	if connect == nil {
		connect = TCP
	}
	began := time.Now()
	conn, err := connect(limit, "tcp", address(u))
	if err != nil {
		return nil, nil, &Error{Unreachable, err}
	}
	if u.Scheme == "wss" {
		if conn, err = d.secure(limit, conn, u.Hostname()); err != nil {
			return nil, nil, &Error{Handshake, err}
		}
	}
	// The upgrade has what is left of the time. A failure means that the
	// connection is gone already.
	_ = conn.SetDeadline(began.Add(d.Timeout))
	return conn, u, nil
}

func parseTarget(target string) (*url.URL, error) {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "ws" && u.Scheme != "wss":
		return nil, fmt.Errorf("%q is no ws or wss address", target)
	case u.Host == "":
		return nil, fmt.Errorf("%q names no host", target)
	case u.User != nil:
		return nil, errors.New("the address has a user name in it, which a SHiP node has no use for")
	}
	return u, nil
}

// address is host:port of u, with the port of the scheme when it names none.
func address(u *url.URL) string {
	if u.Port() != "" {
		return u.Host
	}
	port := "80"
	if u.Scheme == "wss" {
		port = "443"
	}
	return net.JoinHostPort(u.Hostname(), port)
}
