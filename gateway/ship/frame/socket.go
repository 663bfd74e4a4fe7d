//go:build linux && !race && (amd64 || arm64)

package frame

import (
	"syscall"
	"unsafe"
)

// maxAtOnce is the longest system call, in bytes, that the scheduler is not told
// of. Telling it is for calls that may block, which one on a non-blocking socket
// never does, and costs a tenth of a block; but while it is not told it can
// neither use the processor for others nor stop the world.
const maxAtOnce = 256 << 10

// readSocket is read(2).
func readSocket(fd int, p []byte) (int, error) {
	if len(p) > maxAtOnce {
		return syscall.Read(fd, p)
	}
	return result(syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))))
}

// writeSocket is write(2).
func writeSocket(fd int, p []byte) (int, error) {
	if len(p) > maxAtOnce {
		return syscall.Write(fd, p)
	}
	return result(syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p))))
}

// receiveMessage is recvmsg(2) into p, with its control messages in control, of
// which it reports the length.
func receiveMessage(fd int, p, control []byte) (n, told int, err error) {
	iov := syscall.Iovec{Base: unsafe.SliceData(p)}
	iov.SetLen(len(p))
	msg := syscall.Msghdr{Iov: &iov, Iovlen: 1, Control: unsafe.SliceData(control)}
	msg.SetControllen(len(control))
	n, err = result(syscall.RawSyscall(syscall.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&msg)), 0))
	return n, int(msg.Controllen), err
}

func result(n, _ uintptr, e syscall.Errno) (int, error) {
	if e != 0 {
		return 0, e
	}
	return int(n), nil
}
