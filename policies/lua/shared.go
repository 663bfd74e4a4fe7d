package lua

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	lua "github.com/yuin/gopher-lua"
)

// shared is what all states of a script have in common: the table state, the
// counters, and the log. It is safe for concurrent use.
type shared struct {
	log *slog.Logger

	mu sync.Mutex
	// values are those of the table state; bytes is their size.
	values   map[string]lua.LValue
	bytes    int
	counters map[string]float64
	// tokens are how many lines may be logged now; refilled is when that was
	// worked out, and dropped counts lines that were not logged.
	tokens   float64
	refilled time.Time
	dropped  int
}

const (
	// maxState is how many names the table state has, maxStateBytes how many
	// bytes its names and texts.
	maxState, maxStateBytes = 1000, 64 << 10
	// maxCounters is how many counters a script has, maxCounterName the longest
	// name in bytes.
	maxCounters, maxCounterName = 100, 64
	// Lines of the script: one in logEvery, and logBurst at once.
	logEvery = 6 * time.Second
	logBurst = 10
	// maxLogText is the longest text of a line, in bytes.
	maxLogText = 500
)

func newShared(log *slog.Logger) *shared {
	return &shared{log: log, values: map[string]lua.LValue{}, counters: map[string]float64{}, tokens: logBurst, refilled: time.Now()}
}

// get is a value of the table state.
func (s *shared) get(name string) lua.LValue {
	s.mu.Lock()
	defer s.mu.Unlock()
	if value := s.values[name]; value != nil {
		return value
	}
	return lua.LNil
}

// set changes one; nil takes it out.
func (s *shared) set(name string, value lua.LValue) error {
	size := len(name)
	switch x := value.(type) {
	case lua.LString:
		size += len(x)
	case lua.LNumber, lua.LBool, *lua.LNilType:
	default:
		return fmt.Errorf("state.%s: a %s value cannot be kept; texts, numbers and booleans can", cut(name, 40), value.Type())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	old, had := s.values[name]
	before := 0
	if had {
		before = len(name)
		if text, ok := old.(lua.LString); ok {
			before += len(text)
		}
	}
	switch {
	case value == lua.LNil:
		delete(s.values, name)
		s.bytes -= before
		return nil
	case !had && len(s.values) >= maxState:
		return fmt.Errorf("state has %d names, and no room for another", maxState)
	case s.bytes-before+size > maxStateBytes:
		return fmt.Errorf("state has no room for more than %d bytes", maxStateBytes)
	}
	s.values[name] = value
	s.bytes += size - before
	return nil
}

// count adds to a counter and returns its value.
func (s *shared) count(name string, by float64) (float64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, had := s.counters[name]; !had && len(s.counters) >= maxCounters {
		return 0, fmt.Errorf("there are %d counters, and no room for another", maxCounters)
	}
	s.counters[name] += by
	return s.counters[name], nil
}

// counted is the value of a counter.
func (s *shared) counted(name string) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counters[name]
}

// line logs a line of the script, unless there were too many.
func (s *shared) line(level slog.Level, script, text string) {
	s.mu.Lock()
	now := time.Now()
	s.tokens = min(logBurst, s.tokens+float64(now.Sub(s.refilled))/float64(logEvery))
	s.refilled = now
	if s.tokens < 1 {
		s.dropped++
		s.mu.Unlock()
		return
	}
	s.tokens--
	dropped := s.dropped
	s.dropped = 0
	s.mu.Unlock()
	args := []any{"script", script}
	if dropped > 0 {
		args = append(args, "lines_left_out", dropped)
	}
	s.log.Log(context.Background(), level, cut(text, maxLogText), args...)
}

// stateTable is the table state: each access goes to what is shared.
func (v *vm) stateTable() *lua.LTable {
	t, meta := v.L.NewTable(), v.L.NewTable()
	meta.RawSetString("__index", v.L.NewFunction(func(L *lua.LState) int {
		L.Push(v.env.get(L.CheckString(2)))
		return 1
	}))
	meta.RawSetString("__newindex", v.L.NewFunction(func(L *lua.LState) int {
		name, value := L.CheckString(2), L.Get(3)
		if v.dry() {
			note(v.now.request, "would set state.%s", cut(name, 40))
			return 0
		}
		if err := v.env.set(name, value); err != nil {
			L.RaiseError("%s", err.Error())
		}
		return 0
	}))
	meta.RawSetString("__metatable", lua.LFalse)
	t.Metatable = meta
	// table.insert would fill the table itself.
	v.views[t] = &view{table: t, backing: v.L.NewTable()}
	return t
}

// dry reports whether nothing is to be remembered of this call.
func (v *vm) dry() bool { return v.now.request != nil && v.now.request.Dry }

// hash is a whole number from 0 to 2^32-1 that a text has always and everywhere.
func (v *vm) hash(L *lua.LState) int {
	text := L.CheckString(1)
	v.guard.work(L, len(text)/16)
	// FNV-1a, and a finish that spreads what it leaves in the low bits.
	h := uint32(0x811c9dc5)
	for i := range len(text) {
		h = (h ^ uint32(text[i])) * 0x01000193
	}
	h = (h ^ h>>16) * 0x85ebca6b
	h = (h ^ h>>13) * 0xc2b2ae35
	L.Push(lua.LNumber(h ^ h>>16))
	return 1
}

// clock is now(): seconds since 1970, with a fraction.
func (v *vm) clock(L *lua.LState) int {
	L.Push(lua.LNumber(float64(time.Now().UnixNano()) / 1e9))
	return 1
}

var levels = map[string]slog.Level{"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError}

func (v *vm) log(L *lua.LState) int {
	level, ok := levels[L.CheckString(1)]
	if !ok {
		L.RaiseError("log: the level %q is none of debug, info, warn, error", cut(L.CheckString(1), 20))
	}
	text := L.ToStringMeta(L.CheckAny(2)).String()
	v.line(level, text)
	return 0
}

// line logs a line, unless the call is dry.
func (v *vm) line(level slog.Level, text string) {
	if v.dry() {
		note(v.now.request, "would log at level %s: %s", strings.ToLower(level.String()), cut(text, maxLogText))
		return
	}
	v.env.line(level, v.bundle.script, text)
}

// print is log at level info.
func (v *vm) print(L *lua.LState) int {
	var parts []string
	for i := range L.GetTop() {
		parts = append(parts, L.ToStringMeta(L.Get(i+1)).String())
	}
	v.line(slog.LevelInfo, strings.Join(parts, " "))
	return 0
}

// count is counter(name, by): it adds to a counter in the metrics, and returns
// its value.
func (v *vm) count(L *lua.LState) int {
	name, by := L.CheckString(1), float64(L.OptNumber(2, 1))
	switch {
	case len(name) > maxCounterName || name == "" || strings.ToValidUTF8(name, "") != name:
		L.RaiseError("counter: a name has 1 to %d bytes", maxCounterName)
	case !(by >= 0 && by <= 1e15):
		L.RaiseError("counter: it only rises")
	case v.dry():
		note(v.now.request, "would add %g to the counter %s", by, name)
		L.Push(lua.LNumber(v.env.counted(name) + by))
		return 1
	}
	value, err := v.env.count(name, by)
	if err != nil {
		L.RaiseError("%s", err.Error())
	}
	L.Push(lua.LNumber(value))
	return 1
}

// include runs a module, once, and returns what it returns.
func (v *vm) include(L *lua.LState) int {
	name := L.CheckString(1)
	if !v.loading {
		L.RaiseError("include works at the top of a script only, not in a call")
	}
	path, err := modulePath(v.bundle.script, name)
	if err != nil {
		L.RaiseError("%s", err.Error())
	}
	if value := v.included[path]; value != nil {
		L.Push(value)
		return 1
	}
	proto, err := v.bundle.proto(path)
	if err != nil {
		L.RaiseError("include: %s", err.Error())
	}
	if v.depth++; v.depth > maxModules {
		L.RaiseError("include %q: modules include each other", cut(name, 40))
	}
	L.Push(L.NewFunctionFromProto(proto))
	L.Call(0, 1)
	v.depth--
	value := L.Get(-1)
	if value == lua.LNil {
		value = lua.LTrue
	}
	v.included[path] = value
	L.Push(value)
	return 1
}
