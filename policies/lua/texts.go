package lua

import (
	"fmt"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// The functions of texts that could make a long one, or take long: here they
// have limits.

// concat is the operator .. .
func (v *vm) concat(L *lua.LState) int {
	a, b := L.Get(1), L.Get(2)
	if !lua.LVCanConvToString(a) || !lua.LVCanConvToString(b) {
		op := L.GetMetaField(a, "__concat")
		if op == lua.LNil {
			op = L.GetMetaField(b, "__concat")
		}
		if op == lua.LNil {
			wrong := a
			if lua.LVCanConvToString(a) {
				wrong = b
			}
			L.RaiseError("attempt to concatenate a %s value", wrong.Type())
		}
		L.Push(op)
		L.Push(a)
		L.Push(b)
		L.Call(2, 1)
		return 1
	}
	left, right := lua.LVAsString(a), lua.LVAsString(b)
	v.guard.text(L, len(left)+len(right))
	L.Push(lua.LString(left + right))
	return 1
}

func (v *vm) rep(L *lua.LState) int {
	text, n := L.CheckString(1), L.CheckInt(2)
	if n <= 0 || text == "" {
		L.Push(lua.LString(""))
		return 1
	}
	if n > maxText {
		n = maxText + 1
	}
	v.guard.text(L, len(text)*n)
	L.Push(lua.LString(strings.Repeat(text, n)))
	return 1
}

// format takes the verbs of Lua, with a width and a precision of two digits.
func (v *vm) format(L *lua.LState) int {
	pattern := L.CheckString(1)
	var out strings.Builder
	arg := 1
	for i := 0; i < len(pattern); i++ {
		if pattern[i] != '%' {
			out.WriteByte(pattern[i])
			continue
		}
		begin := i
		for i++; i < len(pattern) && strings.IndexByte("-+ #0", pattern[i]) >= 0; i++ {
		}
		digits := 0
		for ; i < len(pattern) && (isDigit(pattern[i]) || pattern[i] == '.'); i++ {
			if digits++; pattern[i] == '.' {
				digits = 0
			}
			if digits > 2 || i-begin > 10 {
				L.RaiseError("format %q: a width has at most two digits", cut(pattern, 40))
			}
		}
		if i == len(pattern) {
			L.RaiseError("format %q: it ends inside a %%", cut(pattern, 40))
		}
		arg++
		verb, spec := pattern[i], pattern[begin:i]
		switch verb {
		case '%':
			arg--
			out.WriteByte('%')
		case 'd', 'i':
			fmt.Fprintf(&out, spec+"d", int64(L.CheckNumber(arg)))
		case 'u':
			fmt.Fprintf(&out, spec+"d", uint64(L.CheckNumber(arg)))
		case 'c':
			out.WriteByte(byte(L.CheckInt(arg)))
		case 'o', 'x', 'X':
			fmt.Fprintf(&out, spec+string(verb), int64(L.CheckNumber(arg)))
		case 'e', 'E', 'f', 'g', 'G':
			fmt.Fprintf(&out, spec+string(verb), float64(L.CheckNumber(arg)))
		case 'q':
			out.WriteString(quoted(L.CheckString(arg)))
		case 's':
			text := L.ToStringMeta(L.CheckAny(arg)).String()
			v.guard.text(L, len(text))
			fmt.Fprintf(&out, spec+"s", text)
		default:
			L.RaiseError("format %q: %%%c is not known", cut(pattern, 40), verb)
		}
		if out.Len() > maxText {
			v.guard.text(L, out.Len())
		}
	}
	v.guard.text(L, out.Len())
	L.Push(lua.LString(out.String()))
	return 1
}

// quoted is %q.
func quoted(text string) string {
	r := strings.NewReplacer("\\", "\\\\", "\"", "\\\"", "\n", "\\\n", "\r", "\\r", "\x00", "\\000")
	return `"` + r.Replace(text) + `"`
}

func (v *vm) tableConcat(L *lua.LState) int {
	list, sep := L.CheckTable(1), L.OptString(2, "")
	from, to := L.OptInt(3, 1), L.OptInt(4, list.Len())
	size := 0
	var out strings.Builder
	for i := from; i <= to; i++ {
		v.guard.work(L, 1)
		item := list.RawGetInt(i)
		if !lua.LVCanConvToString(item) {
			L.RaiseError("table.concat: item %d is a %s value", i, item.Type())
		}
		text := lua.LVAsString(item)
		if i > from {
			text = sep + text
		}
		if size += len(text); size > maxText {
			v.guard.text(L, size)
		}
		out.WriteString(text)
	}
	v.guard.text(L, size)
	L.Push(lua.LString(out.String()))
	return 1
}

// from is where a search begins that is asked to at init, which may count from
// the end.
func from(init, length int) int {
	if init < 0 {
		init = max(init+length+1, 1)
	}
	return max(init-1, 0)
}

func (v *vm) find(L *lua.LState) int  { return v.search(L, true) }
func (v *vm) match(L *lua.LState) int { return v.search(L, false) }

// search is string.find and string.match.
func (v *vm) search(L *lua.LState, find bool) int {
	text, pattern := L.CheckString(1), L.CheckString(2)
	at := from(L.OptInt(3, 1), len(text))
	if at > len(text) {
		L.Push(lua.LNil)
		return 1
	}
	if find && (L.ToBool(4) || !strings.ContainsAny(pattern, "^$*+?.([%-")) {
		v.guard.work(L, len(text)/16)
		i := strings.Index(text[at:], pattern)
		if i < 0 {
			L.Push(lua.LNil)
			return 1
		}
		L.Push(lua.LNumber(at + i + 1))
		L.Push(lua.LNumber(at + i + len(pattern)))
		return 2
	}
	m, anchored := v.matcher(L, text, pattern)
	for ; at <= len(text); at++ {
		if end := m.start(at); end >= 0 {
			if !find {
				return m.values(at, end)
			}
			L.Push(lua.LNumber(at + 1))
			L.Push(lua.LNumber(end))
			if len(m.captures) == 0 {
				return 2
			}
			return 2 + m.values(at, end)
		}
		if anchored {
			break
		}
	}
	L.Push(lua.LNil)
	return 1
}

// matcher splits the anchor off a pattern.
func (v *vm) matcher(L *lua.LState, text, pattern string) (*matcher, bool) {
	pattern, anchored := strings.CutPrefix(pattern, "^")
	return &matcher{L: L, guard: v.guard, src: text, pat: pattern}, anchored
}

func (v *vm) gmatch(L *lua.LState) int {
	m, _ := v.matcher(L, L.CheckString(1), L.CheckString(2))
	m.pat = L.CheckString(2) // an anchor means nothing here
	at := 0
	L.Push(L.NewFunction(func(L *lua.LState) int {
		m.L = L
		for ; at <= len(m.src); at++ {
			begin := at
			end := m.start(at)
			if end < 0 {
				continue
			}
			if at = end; end == begin {
				at++
			}
			return m.values(begin, end)
		}
		L.Push(lua.LNil)
		return 1
	}))
	return 1
}

func (v *vm) gsub(L *lua.LState) int {
	text, pattern, repl := L.CheckString(1), L.CheckString(2), L.CheckAny(3)
	most := L.OptInt(4, len(text)+1)
	switch repl.Type() {
	case lua.LTString, lua.LTNumber, lua.LTTable, lua.LTFunction:
	default:
		L.RaiseError("gsub replaces by a text, a table or a function, not by a %s value", repl.Type())
	}
	m, anchored := v.matcher(L, text, pattern)
	var out strings.Builder
	at, n := 0, 0
	for n < most {
		end := m.start(at)
		if end >= 0 {
			n++
			out.WriteString(v.replacement(m, repl, at, end))
			v.room(L, &out)
		}
		switch {
		case end > at:
			at = end
		case at < len(text):
			out.WriteByte(text[at])
			at++
		default:
			most = n
		}
		if anchored {
			break
		}
	}
	if at < len(text) {
		out.WriteString(text[at:])
	}
	v.guard.text(L, out.Len())
	L.Push(lua.LString(out.String()))
	L.Push(lua.LNumber(n))
	return 2
}

// room raises an error as soon as a text that is being built is too long.
func (v *vm) room(L *lua.LState, out *strings.Builder) {
	if out.Len() > maxText {
		v.guard.text(L, out.Len())
	}
}

// replacement is what gsub puts in for a match.
func (v *vm) replacement(m *matcher, repl lua.LValue, begin, end int) string {
	whole := m.src[begin:end]
	var value lua.LValue
	switch r := repl.(type) {
	case *lua.LTable:
		value = m.L.GetTable(r, m.value(0, begin, end))
	case *lua.LFunction:
		m.L.Push(r)
		n := m.values(begin, end)
		m.L.Call(n, 1)
		value = m.L.Get(-1)
		m.L.Pop(1)
	default:
		return v.expand(m, lua.LVAsString(r), begin, end)
	}
	switch {
	case lua.LVIsFalse(value):
		return whole
	case !lua.LVCanConvToString(value):
		m.L.RaiseError("gsub: the replacement is a %s value", value.Type())
	}
	return lua.LVAsString(value)
}

// expand puts captures into the text of a replacement.
func (v *vm) expand(m *matcher, text string, begin, end int) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		c := text[i]
		if c != '%' || i+1 == len(text) {
			out.WriteByte(c)
			continue
		}
		i++
		switch c := text[i]; {
		case c == '0':
			out.WriteString(m.src[begin:end])
		case isDigit(c):
			i := int(c - '1')
			if i >= max(1, len(m.captures)) {
				m.fail("%%%c is no capture", c)
			}
			out.WriteString(lua.LVAsString(m.value(i, begin, end)))
		default:
			out.WriteByte(c)
		}
		v.room(m.L, &out)
	}
	return out.String()
}

// cut shortens a text for a message.
func cut(text string, most int) string {
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}
