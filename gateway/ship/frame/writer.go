package frame

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// patience is how long a write waits for a full socket before the rest is
// queued. A reader that is merely busy takes its bytes within it, which saves
// the copy; one that has stopped reading holds up the other side no longer.
const patience = 20 * time.Millisecond

// Writer writes whole frames to a connection and never waits for its reader
// longer than a moment: what the socket does not take is queued, and a
// goroutine that lives no longer than the queue sends it.
//
// It is safe for concurrent use; frames go out in the order of the calls.
type Writer struct {
	conn *Conn
	// OnDrain is called, from the queue's goroutine, each time that the queue
	// has shrunk. It must not block. Nil is allowed.
	OnDrain func()
	// OnError is called once, when the connection takes nothing more. It must not
	// block, nor use the Writer. Nil is allowed.
	OnError func()

	mu sync.Mutex
	// scratch is where small frames are put together.
	scratch []byte
	queue   []byte
	err     error
	busy    bool // the goroutine runs
	done    sync.WaitGroup

	queued   atomic.Int64 // bytes not taken by the socket yet
	progress atomic.Int64 // when the socket last took some, or the queue began, since conn.opened
	finish   bool         // close the sending direction behind the queue
}

// NewWriter makes a writer for c.
func NewWriter(c *Conn) *Writer {
	return &Writer{conn: c}
}

// Lock takes the place of the next write without writing yet, so that a caller
// can order its writes with a state that another lock guards. It has to be
// followed by WriteLocked calls and Unlock.
func (w *Writer) Lock() { w.mu.Lock() }

// Unlock ends what Lock began.
func (w *Writer) Unlock() { w.mu.Unlock() }

// Write sends p, which holds whole frames. p may be reused afterwards. The
// error, which every later call repeats, is that of the connection.
func (w *Writer) Write(p []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.WriteLocked(p)
}

// WriteFrame sends payload, which may be reused afterwards, as one unmasked
// frame.
func (w *Writer) WriteFrame(op Opcode, payload []byte) error {
	return w.writeFrame(op, payload, false)
}

// WriteMasked sends payload, which may be reused afterwards, as one masked
// frame.
func (w *Writer) WriteMasked(op Opcode, payload []byte) error {
	return w.writeFrame(op, payload, true)
}

// maxScratch is the longest frame that a Writer keeps a buffer of its own for.
const maxScratch = 512

func (w *Writer) writeFrame(op Opcode, payload []byte, masked bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(payload)+maxHeader <= maxScratch {
		w.scratch = appendFrame(w.scratch[:0], op, payload, masked)
		return w.WriteLocked(w.scratch)
	}
	b := takeBuffer(len(payload) + maxHeader)
	defer giveBuffer(b)
	return w.WriteLocked(appendFrame((*b)[:0], op, payload, masked))
}

func appendFrame(dst []byte, op Opcode, payload []byte, masked bool) []byte {
	if masked {
		return AppendMasked(dst, op, payload)
	}
	return Append(dst, op, payload)
}

// WriteLocked is Write for the holder of Lock.
func (w *Writer) WriteLocked(p []byte) error {
	if w.err != nil || len(p) == 0 {
		return w.err
	}
	if !w.busy {
		n, err := w.conn.writeNow(p)
		if err == nil && n > 0 && n < len(p) {
			var more int
			more, err = w.writePatiently(p[n:])
			n += more
		}
		if err != nil {
			w.fail(err)
			return err
		}
		if n > 0 {
			w.progress.Store(int64(w.conn.age()))
		}
		if p = p[n:]; len(p) == 0 {
			return nil
		}
	}
	if w.queued.Load() == 0 {
		// The reader has taken all there was. However long ago that is, he is
		// slow only from now on.
		w.progress.Store(int64(w.conn.age()))
	}
	w.queue = append(w.queue, p...)
	w.queued.Add(int64(len(p)))
	w.start()
	return nil
}

// writePatiently writes to a plain socket until all is written or patience
// ends. A TLS connection cannot be used again after a write that timed out, so
// this is for plain sockets only.
func (w *Writer) writePatiently(p []byte) (int, error) {
	if err := w.conn.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return 0, err
	}
	n, err := w.conn.Conn.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	if err == nil {
		err = w.conn.SetWriteDeadline(time.Time{})
	}
	return n, err
}

func (w *Writer) start() {
	if w.busy {
		return
	}
	w.busy = true
	w.done.Add(1)
	go w.drain()
}

// drainPiece bounds one write of the queue, so that progress is seen while a
// long queue goes out.
const drainPiece = 256 << 10

func (w *Writer) drain() {
	defer w.done.Done()
	for {
		w.mu.Lock()
		p := w.queue
		w.queue = nil
		if len(p) == 0 || w.err != nil {
			w.busy = false
			w.closeWriteLocked()
			w.mu.Unlock()
			return
		}
		w.mu.Unlock()
		for len(p) > 0 {
			n, err := w.conn.Conn.Write(p[:min(len(p), drainPiece)])
			p = p[n:]
			w.queued.Add(-int64(n))
			if n > 0 {
				w.progress.Store(int64(w.conn.age()))
			}
			if err != nil {
				w.mu.Lock()
				w.fail(err)
				w.queue, p = nil, nil
				w.queued.Store(0)
				w.mu.Unlock()
			}
			if w.OnDrain != nil {
				w.OnDrain()
			}
		}
	}
}

// fail makes err the answer to every later call.
func (w *Writer) fail(err error) {
	if w.err = err; w.OnError != nil {
		w.OnError()
	}
}

// Finish closes the sending direction once everything written before is out.
func (w *Writer) Finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.finish = true
	if !w.busy {
		w.closeWriteLocked()
	}
}

func (w *Writer) closeWriteLocked() {
	if !w.finish || w.err != nil {
		return
	}
	if c, ok := w.conn.Conn.(interface{ CloseWrite() error }); ok {
		// The peer may be gone already, which is as good.
		_ = c.CloseWrite()
	}
}

// Queued is how many bytes the socket has not taken yet.
func (w *Writer) Queued() int64 { return w.queued.Load() }

// Progress is when the socket last took bytes, or when the first of those that
// are queued came, whichever is later.
func (w *Writer) Progress() time.Time { return w.conn.opened.Add(time.Duration(w.progress.Load())) }

// Wait waits for the queue's goroutine; the connection has to be closed, or
// the queue to be empty, for it to end.
func (w *Writer) Wait() { w.done.Wait() }
