package lua

import (
	"context"
	"fmt"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// Kind is why a call of a script was not what the policy asked for, as
// flotilla_policy_errors_total labels it.
type Kind string

// The kinds. Empty is no failure: the script keeps no server, and the built-in
// policy decides.
const (
	KindError        Kind = "error"
	KindInstructions Kind = "instructions"
	KindTime         Kind = "time"
	KindMemory       Kind = "memory"
	KindResult       Kind = "result"
	KindEmpty        Kind = "empty"
)

// Kinds are all of them.
var Kinds = []Kind{KindError, KindInstructions, KindTime, KindMemory, KindResult, KindEmpty}

// limits bound one call of a script.
type limits struct {
	steps int
	time  time.Duration
	bytes int
}

// loading are the limits of the script's first run, which defines its functions.
var loading = limits{steps: 1_000_000, time: 5 * time.Second, bytes: maxBytes}

const (
	// maxSteps is how many instructions one call may take.
	maxSteps = 200_000
	// maxBytes is how many bytes of text and large arrays one call may make.
	maxBytes = 4 << 20
	// maxText is the longest text, in bytes.
	maxText = 64 << 10
	// maxCalls is how deep calls may be nested, and maxValues how many values
	// the calls under way have.
	maxCalls, maxValues = 160, 16 << 10
	// maxArray is the length up to which the interpreter keeps a table as an
	// array: t[maxArray-1] = 1 alone makes one of that size.
	maxArray = 8192
	// maxProtected is how deep pcall may be nested: each level that an error goes
	// through costs a look at the whole stack.
	maxProtected = 16
	// clockEvery is how many instructions pass between two looks at the clock, a
	// power of two. One instruction may take some 50 µs.
	clockEvery = 32
)

func init() {
	// The interpreter has this limit only for all of its states together; nobody
	// else in this process uses it.
	lua.MaxArrayIndex = maxArray
}

// guard counts what a call of a script costs. The interpreter asks its context
// before each instruction whether it is done, which makes Done the hook that it
// does not have otherwise.
type guard struct {
	context.Context // only so that there is one; nothing of it is used
	limits
	used, spent int
	since       time.Time
	// over is why the call has to end; it stays until begin.
	over Kind
	// took is how long the last call took.
	took time.Duration
	// total are the instructions of all calls.
	total int
}

// begin starts a call.
func (g *guard) begin(l limits) {
	g.limits, g.used, g.spent, g.over, g.since = l, 0, 0, "", time.Now()
}

// end finishes it.
func (g *guard) end() {
	g.took = time.Since(g.since)
	g.total += g.used
}

// closed is the channel of a context that is done.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// Done is called before each instruction. A nil channel is never done.
func (g *guard) Done() <-chan struct{} {
	if g.used++; g.used&(clockEvery-1) != 0 && g.over == "" {
		return nil
	}
	if g.exceeded() {
		return closed
	}
	return nil
}

func (g *guard) exceeded() bool {
	switch {
	case g.over != "":
	case g.used > g.steps:
		g.over = KindInstructions
	case g.spent > g.bytes:
		g.over = KindMemory
	case time.Since(g.since) > g.time:
		g.over = KindTime
	}
	return g.over != ""
}

// Err is what the script has done too much of.
func (g *guard) Err() error {
	switch g.over {
	case KindInstructions:
		return fmt.Errorf("the call takes more than %d instructions", g.steps)
	case KindMemory:
		return fmt.Errorf("the call makes more than %d bytes", g.bytes)
	case KindTime:
		return fmt.Errorf("the call takes longer than %v", g.time)
	}
	return nil
}

// work counts n instructions of a function that is not written in Lua, and
// raises an error when they are too many.
func (g *guard) work(L *lua.LState, n int) {
	before := g.used
	g.used += n
	if (before/clockEvery != g.used/clockEvery || g.over != "") && g.exceeded() {
		L.RaiseError("%s", g.Err().Error())
	}
}

// text counts n bytes of a new text, and raises an error when it is too long or
// when all of them are too many.
func (g *guard) text(L *lua.LState, n int) {
	if n > maxText {
		L.RaiseError("a text of more than %d bytes", maxText)
	}
	g.spent += n
	if g.spent > g.bytes && g.exceeded() {
		L.RaiseError("%s", g.Err().Error())
	}
}
