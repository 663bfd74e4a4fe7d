package chainapi

import (
	"io"
	"net"
	"os"
	"testing"
	"time"
)

// A write may last as long as it makes progress, however little.
func TestPush(t *testing.T) {
	none := stallSteps - 1
	for what, c := range map[string]struct {
		// quiet is how many steps pass without progress before each byte.
		quiet   int
		fails   error
		written int
		stalled bool
	}{
		"a byte in each step":       {written: 10},
		"a byte just in time":       {quiet: none, written: 10},
		"no byte for all the steps": {quiet: stallSteps, written: 0, stalled: true},
		"the connection is lost":    {fails: io.ErrClosedPipe, written: 1},
	} {
		one, other := net.Pipe()
		s := &steady{Conn: one, limit: func() time.Duration { return time.Minute }}
		quiet := c.quiet
		n, err := s.push(10, func(done int) (int, error) {
			if quiet > 0 {
				quiet--
				return 0, os.ErrDeadlineExceeded
			}
			quiet = c.quiet
			if c.fails != nil {
				return 1, c.fails
			}
			return 1, os.ErrDeadlineExceeded
		})
		if n != c.written || s.stalled.Load() != c.stalled || (err == nil) != (n == 10) {
			t.Errorf("%s: %d, %v, stalled is %v", what, n, err, s.stalled.Load())
		}
		one.Close()
		other.Close()
	}
}
