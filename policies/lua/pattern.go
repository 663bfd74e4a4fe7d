package lua

import (
	"fmt"

	lua "github.com/yuin/gopher-lua"
)

// Patterns of Lua (manual section 5.4.1). The interpreter's own may take longer
// than the world lasts, and cannot be stopped; these count their steps.

const (
	maxCaptures = 32
	// maxNesting bounds the recursion of one match.
	maxNesting = 200
)

// The lengths of captures that have none.
const (
	openCapture     = -1
	positionCapture = -2
)

// matcher matches one pattern against one text.
type matcher struct {
	L        *lua.LState
	guard    *guard
	src, pat string
	nesting  int
	captures []capture
}

type capture struct{ at, length int }

func (m *matcher) fail(format string, args ...any) {
	m.L.RaiseError("%s", fmt.Sprintf("pattern %q: ", cut(m.pat, 40))+fmt.Sprintf(format, args...))
}

// start begins a match at src[at]; it returns the end, or -1.
func (m *matcher) start(at int) int {
	m.captures, m.nesting = m.captures[:0], 0
	return m.match(at, 0)
}

// match matches pat[p:] at src[s:].
func (m *matcher) match(s, p int) int {
	if m.nesting++; m.nesting > maxNesting {
		m.fail("it is too complex")
	}
	defer func() { m.nesting-- }()
	for p < len(m.pat) {
		m.guard.work(m.L, 1)
		switch m.pat[p] {
		case '(':
			return m.open(s, p)
		case ')':
			return m.close(s, p)
		case '$':
			if p+1 == len(m.pat) {
				if s == len(m.src) {
					return s
				}
				return -1
			}
		case '%':
			if next, end, special := m.special(s, p); special {
				if end < 0 {
					return -1
				}
				s, p = end, next
				continue
			}
		}
		next := m.itemEnd(p)
		var suffix byte
		if next < len(m.pat) {
			suffix = m.pat[next]
		}
		switch suffix {
		case '*':
			return m.longest(s, p, next, 0)
		case '+':
			return m.longest(s, p, next, 1)
		case '-':
			return m.shortest(s, p, next)
		case '?':
			if m.single(s, p, next) {
				if end := m.match(s+1, next+1); end >= 0 {
					return end
				}
			}
			p = next + 1
		default:
			if !m.single(s, p, next) {
				return -1
			}
			s, p = s+1, next
		}
	}
	return s
}

// special matches %b, %f and back references at pat[p]; next is what follows.
func (m *matcher) special(s, p int) (next, end int, special bool) {
	if p+1 >= len(m.pat) {
		m.fail("it ends with %%")
	}
	switch c := m.pat[p+1]; {
	case c == 'b':
		return p + 4, m.balanced(s, p+2), true
	case c == 'f':
		p += 2
		if p >= len(m.pat) || m.pat[p] != '[' {
			m.fail("[ is missing after %%f")
		}
		next = m.itemEnd(p)
		var before, here byte
		if s > 0 {
			before = m.src[s-1]
		}
		if s < len(m.src) {
			here = m.src[s]
		}
		if m.inSet(before, p, next-1) || !m.inSet(here, p, next-1) {
			return next, -1, true
		}
		return next, s, true
	case c >= '1' && c <= '9':
		i := int(c - '1')
		if i >= len(m.captures) || m.captures[i].length == openCapture {
			m.fail("%%%c is no capture", c)
		}
		known := m.captured(i)
		m.guard.work(m.L, len(known))
		if len(m.src)-s < len(known) || m.src[s:s+len(known)] != known {
			return p + 2, -1, true
		}
		return p + 2, s + len(known), true
	}
	return 0, 0, false
}

// balanced matches %bxy, whose x is pat[p]; it returns the end, or -1.
func (m *matcher) balanced(s, p int) int {
	if p+1 >= len(m.pat) {
		m.fail("%%b lacks its two characters")
	}
	if s >= len(m.src) || m.src[s] != m.pat[p] {
		return -1
	}
	depth := 1
	for i := s + 1; i < len(m.src); i++ {
		m.guard.work(m.L, 1)
		switch m.src[i] {
		case m.pat[p+1]:
			if depth--; depth == 0 {
				return i + 1
			}
		case m.pat[p]:
			depth++
		}
	}
	return -1
}

func (m *matcher) open(s, p int) int {
	length := openCapture
	if p+1 < len(m.pat) && m.pat[p+1] == ')' {
		length = positionCapture
		p++
	}
	if len(m.captures) == maxCaptures {
		m.fail("it has more than %d captures", maxCaptures)
	}
	m.captures = append(m.captures, capture{s, length})
	n := len(m.captures)
	end := m.match(s, p+1)
	if end < 0 {
		m.captures = m.captures[:n-1]
	}
	return end
}

func (m *matcher) close(s, p int) int {
	for i := len(m.captures) - 1; i >= 0; i-- {
		if m.captures[i].length != openCapture {
			continue
		}
		m.captures[i].length = s - m.captures[i].at
		end := m.match(s, p+1)
		if end < 0 {
			m.captures[i].length = openCapture
		}
		return end
	}
	m.fail("a ) has no (")
	return -1
}

// longest matches as many of the item pat[p:next] as it can, and gives them
// back one by one.
func (m *matcher) longest(s, p, next, least int) int {
	n := 0
	for m.single(s+n, p, next) {
		n++
	}
	for ; n >= least; n-- {
		m.guard.work(m.L, 1)
		if end := m.match(s+n, next+1); end >= 0 {
			return end
		}
	}
	return -1
}

// shortest matches as few as it can.
func (m *matcher) shortest(s, p, next int) int {
	for {
		if end := m.match(s, next+1); end >= 0 {
			return end
		}
		if !m.single(s, p, next) {
			return -1
		}
		s++
	}
}

// itemEnd is behind the single item at pat[p].
func (m *matcher) itemEnd(p int) int {
	switch m.pat[p] {
	case '%':
		if p+1 >= len(m.pat) {
			m.fail("it ends with %%")
		}
		return p + 2
	case '[':
		p++
		if p < len(m.pat) && m.pat[p] == '^' {
			p++
		}
		for first := true; ; first = false {
			m.guard.work(m.L, 1)
			if p >= len(m.pat) {
				m.fail("a [ has no ]")
			}
			c := m.pat[p]
			p++
			if c == '%' {
				p++
			} else if c == ']' && !first {
				return p
			}
		}
	default:
		return p + 1
	}
}

// single reports whether src[s] is the item pat[p:next].
func (m *matcher) single(s, p, next int) bool {
	if s >= len(m.src) {
		return false
	}
	m.guard.work(m.L, 1)
	switch c := m.src[s]; m.pat[p] {
	case '.':
		return true
	case '%':
		return inClass(c, m.pat[p+1])
	case '[':
		return m.inSet(c, p, next-1)
	default:
		return c == m.pat[p]
	}
}

// inSet reports whether c is in the set whose [ is pat[p] and whose ] is
// pat[last].
func (m *matcher) inSet(c byte, p, last int) bool {
	in := true
	if p++; m.pat[p] == '^' {
		in = false
		p++
	}
	for ; p < last; p++ {
		m.guard.work(m.L, 1)
		switch {
		case m.pat[p] == '%':
			p++
			if inClass(c, m.pat[p]) {
				return in
			}
		case p+2 < last && m.pat[p+1] == '-':
			if m.pat[p] <= c && c <= m.pat[p+2] {
				return in
			}
			p += 2
		case m.pat[p] == c:
			return in
		}
	}
	return !in
}

// inClass is %a and its like; an upper-case letter is the opposite, and what is
// no letter stands for itself.
func inClass(c, class byte) bool {
	lower := class | 0x20
	if !isLetter(class) {
		return c == class
	}
	var in bool
	switch lower {
	case 'a':
		in = isLetter(c)
	case 'c':
		in = c < 0x20 || c == 0x7f
	case 'd':
		in = isDigit(c)
	case 'l':
		in = c >= 'a' && c <= 'z'
	case 'p':
		in = c > 0x20 && c < 0x7f && !isLetter(c) && !isDigit(c)
	case 's':
		in = c == ' ' || c >= '\t' && c <= '\r'
	case 'u':
		in = c >= 'A' && c <= 'Z'
	case 'w':
		in = isLetter(c) || isDigit(c)
	case 'x':
		in = isDigit(c) || c|0x20 >= 'a' && c|0x20 <= 'f'
	case 'z':
		in = c == 0
	default:
		return c == class
	}
	return in == (class == lower)
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// captured is the text of a capture that is closed, "" for a position.
func (m *matcher) captured(i int) string {
	c := m.captures[i]
	return m.src[c.at : c.at+max(0, c.length)]
}

// value is what a script gets for capture i, or for the whole match from begin
// to end when the pattern has none.
func (m *matcher) value(i, begin, end int) lua.LValue {
	if len(m.captures) == 0 {
		return lua.LString(m.src[begin:end])
	}
	switch c := m.captures[i]; c.length {
	case openCapture:
		m.fail("a ( has no )")
		return lua.LNil
	case positionCapture:
		return lua.LNumber(c.at + 1)
	default:
		return lua.LString(m.src[c.at : c.at+c.length])
	}
}

// values pushes all captures, or the whole match when there are none, and
// returns how many.
func (m *matcher) values(begin, end int) int {
	n := max(1, len(m.captures))
	for i := range n {
		m.L.Push(m.value(i, begin, end))
	}
	return n
}
