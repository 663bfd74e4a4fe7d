package lua

import (
	"slices"

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
