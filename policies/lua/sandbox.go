package lua

import (
	"math/rand/v2"
	"slices"

	lua "github.com/yuin/gopher-lua"
)

// What a script can call. Everything that is not listed here is taken out, and
// cannot be reached in another way.
var (
	allowedBase = []string{"_G", "_VERSION", "assert", "error", "getmetatable", "pcall", "rawequal", "rawget", "select",
		"setmetatable", "tonumber", "tostring", "type", "unpack", "xpcall", "math", "string", "table"}
	allowedText  = []string{"byte", "char", "len", "lower", "reverse", "sub", "upper"}
	allowedTable = []string{"getn", "insert", "maxn", "remove"}
	deniedMath   = []string{"random", "randomseed"}
)

// open fills the state with what a script can call.
func (v *vm) open() {
	L := v.L
	lua.OpenBase(L)
	lua.OpenTable(L)
	lua.OpenString(L)
	lua.OpenMath(L)
	L.SetTop(0)
	globals := L.G.Global
	keep(globals, allowedBase)
	// No module is found by anybody who gets hold of the registry.
	L.G.Registry.RawSetString("_LOADED", lua.LNil)
	v.library(globals, map[string]lua.LGFunction{
		"pairs": v.pairs, "ipairs": v.ipairs, "next": v.next, concatName: v.concat,
		"include": v.include, "hash": v.hash, "now": v.clock, "log": v.log, "counter": v.count, "print": v.print, "sort_by": v.sortBy,
	})

	for _, name := range []string{"pcall", "xpcall"} {
		globals.RawSetString(name, L.NewFunction(v.protected(globals.RawGetString(name).(*lua.LFunction).GFunction)))
	}

	texts := globals.RawGetString("string").(*lua.LTable)
	keep(texts, allowedText)
	v.library(texts, map[string]lua.LGFunction{
		"rep": v.rep, "format": v.format, "find": v.find, "match": v.match, "gmatch": v.gmatch, "gsub": v.gsub,
	})
	// Texts have this table as their own, so that s:upper() works; a copy, so that
	// the library has no field that is no function.
	methods := L.NewTable()
	methods.RawSetString("__index", texts)
	methods.RawSetString("__metatable", lua.LFalse)
	L.SetMetatable(lua.LString(""), methods)

	tables := globals.RawGetString("table").(*lua.LTable)
	keep(tables, allowedTable)
	for _, name := range []string{"insert", "remove"} {
		tables.RawSetString(name, L.NewFunction(v.refuseViews(tables.RawGetString(name).(*lua.LFunction).GFunction)))
	}
	v.library(tables, map[string]lua.LGFunction{"concat": v.tableConcat, "sort": v.sort})

	maths := globals.RawGetString("math").(*lua.LTable)
	for _, name := range deniedMath {
		maths.RawSetString(name, lua.LNil)
	}
	v.library(maths, map[string]lua.LGFunction{"random": random})
}

func keep(t *lua.LTable, names []string) {
	var gone []string
	t.ForEach(func(key, _ lua.LValue) {
		if name := lua.LVAsString(key); !slices.Contains(names, name) {
			gone = append(gone, name)
		}
	})
	for _, name := range gone {
		t.RawSetString(name, lua.LNil)
	}
}

func (v *vm) library(t *lua.LTable, functions map[string]lua.LGFunction) {
	for name, f := range functions {
		t.RawSetString(name, v.L.NewFunction(f))
	}
}

// protected is pcall, or its like, with a limit. It does not catch the end of a
// call that has gone on for too long.
func (v *vm) protected(f lua.LGFunction) lua.LGFunction {
	return func(L *lua.LState) int {
		if v.nested == maxProtected {
			L.RaiseError("pcall is nested more than %d times", maxProtected)
		}
		v.nested++
		n := f(L)
		v.nested--
		if v.guard.over != "" {
			L.RaiseError("%s", v.guard.Err().Error())
		}
		return n
	}
}

// refuseViews keeps functions that change a table behind its metatable from the
// tables of servers and requests, which all calls share.
func (v *vm) refuseViews(f lua.LGFunction) lua.LGFunction {
	return func(L *lua.LState) int {
		if t, ok := L.Get(1).(*lua.LTable); ok {
			if t.Metatable != lua.LNil && v.views[t] != nil {
				L.RaiseError("%s", readOnly)
			}
			v.guard.work(L, t.Len()/16)
		}
		return f(L)
	}
}

// random is math.random with the process's own source, which no script can set.
func random(L *lua.LState) int {
	switch L.GetTop() {
	case 0:
		L.Push(lua.LNumber(rand.Float64()))
	case 1:
		L.Push(lua.LNumber(between(L, 1, L.CheckInt64(1))))
	default:
		L.Push(lua.LNumber(between(L, L.CheckInt64(1), L.CheckInt64(2))))
	}
	return 1
}

func between(L *lua.LState, low, high int64) int64 {
	if high < low || high-low < 0 {
		L.RaiseError("math.random: the interval is empty")
	}
	if high-low+1 <= 0 {
		return low
	}
	return low + rand.Int64N(high-low+1)
}
