package frame

import (
	"encoding/binary"
	"errors"
	"syscall"
)

// tcpInq is TCP_INQ (tcp(7), Linux 4.18): with it a read brings a control message
// of the same type, how many bytes are left, which is at least 1 when the other
// side has ended the stream. The syscall package does not name it.
const tcpInq = 36

// controlSize is the room for that message: a header of a length of 8 bytes, a
// level and a type of 4 each, and a number of 4, padded to 8.
const controlSize = 24

// askRest has reads of a socket tell what is left. It reports false where the
// kernel cannot.
func askRest(raw syscall.RawConn) bool {
	var failure error
	err := raw.Control(func(fd uintptr) {
		failure = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpInq, 1)
	})
	return err == nil && failure == nil
}

// setLowWater sets SO_RCVLOWAT (socket(7)). Linux takes notice of it when it waits
// for a TCP socket, and of a lower one for what is there, since 4.18: the version
// that TCP_INQ is of.
func setLowWater(raw syscall.RawConn, n int) bool {
	var failure error
	err := raw.Control(func(fd uintptr) {
		failure = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, n)
	})
	return err == nil && failure == nil
}

// broken reports whether an error waits to be told (SO_ERROR), and takes it.
func broken(raw syscall.RawConn) bool {
	var code int
	var failure error
	err := raw.Control(func(fd uintptr) {
		code, failure = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_ERROR)
	})
	return err != nil || failure != nil || code != 0
}

// receive is read(2) for a non-blocking socket. more is false when nothing was
// left behind what it read, not even the end of the stream: the next read would
// find nothing until the socket becomes readable anew.
func (c *Conn) receive(fd int, p []byte) (n int, more bool, err error) {
	for {
		if !c.tellsRest {
			n, err = readSocket(fd, p)
			more = true
		} else {
			var told int
			n, told, err = receiveMessage(fd, p, c.control[:])
			more = err != nil || rest(c.control[:told]) != 0
		}
		if !errors.Is(err, syscall.EINTR) {
			return n, more, err
		}
	}
}

// rest is how many bytes are left after a read by its control message: at least
// 1 when there is none that says so.
func rest(control []byte) uint32 {
	if len(control) < 20 || binary.NativeEndian.Uint32(control[8:]) != syscall.IPPROTO_TCP || binary.NativeEndian.Uint32(control[12:]) != tcpInq {
		return 1
	}
	return binary.NativeEndian.Uint32(control[16:])
}
