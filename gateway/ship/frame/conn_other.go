//go:build !unix

package frame

import "syscall"

// directIO is off where sockets are no file descriptors that take plain reads
// and writes: reads then hold a buffer while they wait, and writes are queued.
const directIO = false

const controlSize = 0

func askRest(syscall.RawConn) bool { return false }

func setLowWater(syscall.RawConn, int) bool { return false }

func broken(syscall.RawConn) bool { return false }

func (c *Conn) tryRead(uintptr) bool  { return true }
func (c *Conn) tryServe(uintptr) bool { return true }
func (c *Conn) tryWrite(uintptr)      {}
