//go:build unix && !linux

package frame

import (
	"errors"
	"syscall"
)

const controlSize = 0

// askRest: no read tells what is left.
func askRest(syscall.RawConn) bool { return false }

func setLowWater(syscall.RawConn, int) bool { return false }

func broken(syscall.RawConn) bool { return false }

// receive is read(2) for a non-blocking socket. Whether more is there shows in
// the next read only.
func (c *Conn) receive(fd int, p []byte) (n int, more bool, err error) {
	for {
		if n, err = syscall.Read(fd, p); !errors.Is(err, syscall.EINTR) {
			return n, true, err
		}
	}
}

// writeSocket is write(2).
func writeSocket(fd int, p []byte) (int, error) { return syscall.Write(fd, p) }
