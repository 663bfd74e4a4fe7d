package dial

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"
)

// deafPort is a port whose queue is full: a connection to it is neither made
// nor refused.
func deafPort(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 16 {
		c, err := net.DialTimeout("tcp", addr, 200*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Skip("the queue of a socket cannot be filled here")
	return ""
}

func TestNobodyAnswers(t *testing.T) {
	addr := deafPort(t)
	d := newDialer()
	d.Timeout = 200 * time.Millisecond
	o := wait(t, start(t.Context(), d, "ws://"+addr))
	var failed *Error
	if !errors.As(o.err, &failed) || failed.Reason != Unreachable {
		t.Errorf("got %v", o.err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	d.Timeout = 10 * soon
	done := start(ctx, d, "ws://"+addr)
	time.AfterFunc(50*time.Millisecond, cancel)
	if o := wait(t, done); o.err != context.Canceled {
		t.Errorf("canceled: got %v", o.err)
	}
}
