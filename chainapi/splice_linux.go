package chainapi

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"
)

const (
	// spliceLeast is from how much on the rest of a body is spliced: below it the
	// pipe costs more than the copying.
	spliceLeast = 128 << 10
	// ductSize is the size that is asked of the kernel for a pipe, in bytes. A
	// page of it holds one packet, however small, so the usual 64 KiB are filled
	// by little.
	ductSize = 256 << 10

	spliceNonblock = 2 // SPLICE_F_NONBLOCK
)

// splice passes the rest of a body on inside the kernel, which copies nothing of
// it, if it is of known length and large, and both connections are plain TCP. It
// reports false when that cannot be done; then nothing has happened. last is
// called when the upstream has done its part. The limits of time are those of
// wire.Read and steady.Write.
func (c *conn) splice(r *response, last func()) (done bool, err error) {
	if r.length <= 0 || r.fixed.N < spliceLeast || len(r.begin) > 0 || r.wire.in.Buffered() > 0 || c.Conn != net.Conn(c.raw) {
		return false, nil
	}
	d, ok := newDuct(r.wire.Conn, c.raw.Conn)
	if !ok {
		return false, nil
	}
	defer d.close()
	for moved := false; r.fixed.N > 0; moved = true {
		if err := r.wire.SetReadDeadline(time.Now().Add(r.wire.gap)); err != nil {
			return true, upstreamError{err}
		}
		n, err := d.fill(r.fixed.N)
		switch {
		case !moved && cannot(err):
			return false, nil
		case err != nil:
			return true, upstreamError{err}
		case n == 0:
			return true, upstreamError{io.ErrUnexpectedEOF}
		}
		if r.fixed.N -= int64(n); r.fixed.N == 0 {
			r.whole = true
			last()
		}
		if _, err := c.raw.push(n, func(done int) (int, error) { return d.drain(n - done) }); err != nil {
			return true, err
		}
	}
	return true, nil
}

// cannot reports whether an error means that the sockets, the kernel or what
// confines the process does not have splice.
func cannot(err error) bool {
	return errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, os.ErrPermission)
}

// duct is a pipe from one socket to another.
type duct struct {
	from, to  syscall.RawConn
	out, into int
}

func newDuct(from, to net.Conn) (*duct, bool) {
	src, ok := from.(*net.TCPConn)
	dst, ok2 := to.(*net.TCPConn)
	if !ok || !ok2 {
		return nil, false
	}
	var d duct
	var err, err2 error
	if d.from, err = src.SyscallConn(); err != nil {
		return nil, false
	}
	if d.to, err2 = dst.SyscallConn(); err2 != nil {
		return nil, false
	}
	var ends [2]int
	if err := syscall.Pipe2(ends[:], syscall.O_CLOEXEC|syscall.O_NONBLOCK); err != nil {
		return nil, false // no more files: copying needs none
	}
	d.out, d.into = ends[0], ends[1]
	// Best effort: a user has only so many pages for pipes.
	_, _, _ = syscall.Syscall(syscall.SYS_FCNTL, uintptr(d.into), syscall.F_SETPIPE_SZ, ductSize)
	return &d, true
}

func (d *duct) close() {
	_ = syscall.Close(d.out)
	_ = syscall.Close(d.into)
}

// fill moves up to most bytes into the empty pipe. It waits until there are any,
// and returns 0 at the end of the stream.
func (d *duct) fill(most int64) (n int, err error) {
	wait := d.from.Read(func(fd uintptr) bool {
		n, err = move(int(fd), d.into, int(min(most, ductSize)))
		return err != syscall.EAGAIN
	})
	return settled("read", n, err, wait)
}

// drain moves up to most bytes out of the pipe. It waits until some of them can
// be written.
func (d *duct) drain(most int) (n int, err error) {
	wait := d.to.Write(func(fd uintptr) bool {
		n, err = move(d.out, int(fd), most)
		return err != syscall.EAGAIN
	})
	return settled("write", n, err, wait)
}

// settled is what came of a move, and of waiting for the moment for it.
func settled(what string, n int, err, wait error) (int, error) {
	switch {
	case wait != nil:
		return 0, wait
	case err != nil:
		return 0, os.NewSyscallError(what, err)
	}
	return n, nil
}

// move is the system call.
func move(from, to, most int) (int, error) {
	for {
		n, err := syscall.Splice(from, nil, to, nil, most, spliceNonblock)
		if err != syscall.EINTR {
			return max(int(n), 0), err
		}
	}
}
