//go:build linux && (race || !(amd64 || arm64))

package frame

import "syscall"

// The race detector has to see what a socket orders: the calls of the syscall
// package tell it. Some machines know no recvmsg of its own number either.

// readSocket is read(2).
func readSocket(fd int, p []byte) (int, error) { return syscall.Read(fd, p) }

// writeSocket is write(2).
func writeSocket(fd int, p []byte) (int, error) { return syscall.Write(fd, p) }

// receiveMessage is recvmsg(2) into p, with its control messages in control, of
// which it reports the length.
func receiveMessage(fd int, p, control []byte) (n, told int, err error) {
	n, told, _, _, err = syscall.Recvmsg(fd, p, control, 0)
	return n, told, err
}
