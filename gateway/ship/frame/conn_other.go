//go:build !unix

package frame

// directIO is off where sockets are no file descriptors that take plain reads
// and writes: reads then hold a buffer while they wait, and writes are queued.
const directIO = false

func (c *Conn) tryRead(uintptr) bool  { return true }
func (c *Conn) tryWrite(uintptr) bool { return true }
