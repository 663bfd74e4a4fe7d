package lua

import (
	"cmp"
	"slices"
	"strings"

	lua "github.com/yuin/gopher-lua"
)

// sort is table.sort, but stable: servers that are equal for the script stay in
// the built-in order.
func (v *vm) sort(L *lua.LState) int {
	t := L.CheckTable(1)
	if v.views[t] != nil {
		L.RaiseError("%s", readOnly)
	}
	s := sorter{L: L, guard: v.guard, less: L.OptFunction(2, nil)}
	n := t.MaxN()
	v.guard.work(L, n)
	// A comparator may sort, too, so the room is nobody else's meanwhile.
	room := slices.Grow(v.sorting[:0], 2*n)[:2*n]
	v.sorting = nil
	items := room[:n]
	for i := range items {
		items[i] = t.RawGetInt(i + 1)
	}
	s.sort(items, room[n:])
	for i, item := range items {
		t.RawSetInt(i+1, item)
	}
	if n <= maxRoom {
		clear(room)
		v.sorting = room
	}
	return 0
}

// maxRoom is the longest list whose room is kept for the next one.
const maxRoom = 1024

type sorter struct {
	L     *lua.LState
	guard *guard
	less  *lua.LFunction
}

// short is the length up to which insertion asks less than merging: what counts
// is how often the script is called.
const short = 12

// sort merges; room is as long as items.
func (s *sorter) sort(items, room []lua.LValue) {
	if len(items) <= short {
		s.insert(items)
		return
	}
	half := len(items) / 2
	s.sort(items[:half], room[:half])
	s.sort(items[half:], room[half:])
	if !s.before(items[half], items[half-1]) {
		return
	}
	left := room[:copy(room[:half], items[:half])]
	i, j := 0, half
	for k := range items {
		switch {
		case i == len(left):
			return
		case j < len(items) && s.before(items[j], left[i]):
			items[k] = items[j]
			j++
		default:
			items[k] = left[i]
			i++
		}
	}
}

// insert puts each item where it belongs among those before it: mostly behind
// all of them, else by halves.
func (s *sorter) insert(items []lua.LValue) {
	for i := 1; i < len(items); i++ {
		item := items[i]
		if !s.before(item, items[i-1]) {
			continue
		}
		low, high := 0, i-1
		for low < high {
			middle := int(uint(low+high) / 2)
			if s.before(item, items[middle]) {
				high = middle
			} else {
				low = middle + 1
			}
		}
		copy(items[low+1:i+1], items[low:i])
		items[low] = item
	}
}

// before reports whether a goes before b.
func (s *sorter) before(a, b lua.LValue) bool {
	if s.less == nil {
		s.guard.work(s.L, 1)
		return s.L.LessThan(a, b)
	}
	s.L.Push(s.less)
	s.L.Push(a)
	s.L.Push(b)
	s.L.Call(2, 1)
	less := lua.LVAsBool(s.L.Get(-1))
	s.L.Pop(1)
	return less
}

// keyed is an item of a list with what it is sorted by.
type keyed struct {
	item   lua.LValue
	number float64
	text   string
	// none: it has no key, and comes last.
	none  bool
	place int
}

// sortBy is sort_by(list, key, descending): it sorts a list in place by a field
// of its items, or by what a function says of each, and returns it. The key is
// read once for each item, where a comparator of table.sort is called again and
// again. Equal ones stay as they are, and those without a key come last.
func (v *vm) sortBy(L *lua.LState) int {
	t, key := L.CheckTable(1), L.CheckAny(2)
	if v.views[t] != nil {
		L.RaiseError("%s", readOnly)
	}
	order := 1
	if L.ToBool(3) {
		order = -1
	}
	n := t.MaxN()
	v.guard.work(L, n)
	list := make([]keyed, n)
	kind := lua.LTNil
	// What changes is read where it is, without a value for the script.
	var live *liveField
	if name, ok := key.(lua.LString); ok {
		live = liveFieldOf(string(name))
	}
	for i := range list {
		k := &list[i]
		k.item, k.place = t.RawGetInt(i+1), i
		if w := v.serverAt(k.item, i); live != nil && w != nil && w.now != nil && (kind == lua.LTNil || kind == live.kind()) {
			k.number, kind = live.read(w.now), live.kind()
			continue
		}
		value := v.keyOf(L, k.item, key)
		switch x := value.(type) {
		case lua.LNumber:
			k.number = float64(x)
		case lua.LBool:
			k.number = flag(bool(x))
		case lua.LString:
			k.text = string(x)
		case *lua.LNilType:
			k.none = true
			continue
		default:
			L.RaiseError("sort_by: a key is a %s value; numbers, texts and booleans are expected", value.Type())
		}
		if kind == lua.LTNil {
			kind = value.Type()
		} else if kind != value.Type() {
			L.RaiseError("sort_by: one key is a %s value and another a %s value", kind, value.Type())
		}
	}
	slices.SortFunc(list, func(a, b keyed) int {
		switch {
		case a.none != b.none && a.none:
			return 1
		case a.none != b.none:
			return -1
		}
		return cmp.Or(order*cmp.Compare(a.number, b.number), order*strings.Compare(a.text, b.text), a.place-b.place)
	})
	for i := range list {
		t.RawSetInt(i+1, list[i].item)
	}
	L.Push(t)
	return 1
}

// keyOf is the key of an item: a field of it, or what a function says.
func (v *vm) keyOf(L *lua.LState, item, key lua.LValue) lua.LValue {
	if f, ok := key.(*lua.LFunction); ok {
		L.Push(f)
		L.Push(item)
		L.Call(1, 1)
		value := L.Get(-1)
		L.Pop(1)
		return value
	}
	name, ok := key.(lua.LString)
	if !ok {
		L.RaiseError("sort_by: the name of a field, or a function, is expected, and not a %s value", key.Type())
	}
	t, ok := item.(*lua.LTable)
	if !ok {
		L.RaiseError("sort_by: the list has a %s value, which has no fields", item.Type())
	}
	if w := v.views[t]; w != nil {
		return v.get(w, string(name))
	}
	return t.RawGetString(string(name))
}
