package lua

import (
	"maps"
	"reflect"
	"slices"

	"flotilla/policies"

	lua "github.com/yuin/gopher-lua"
)

// view is a table that a script can read and not change: a server, the request,
// or texts by name. It stays empty; what is read is in the backing, which keeps
// what was computed until the call ends.
type view struct {
	table, backing *lua.LTable
	// field computes a value that is not in the backing; nil for an unknown
	// name.
	field func(name string) lua.LValue
	// names are all that field knows.
	names []string
	// computed are the names to be forgotten when the call ends.
	computed []string
	// server is the one that it shows, nil for others.
	server *serverView
}

const readOnly = "servers and requests cannot be changed"

// newView makes a view that is in v.views.
func (v *vm) newView(names []string, field func(string) lua.LValue) *view {
	w := &view{table: v.L.NewTable(), backing: v.L.NewTable(), field: field, names: names}
	meta := v.L.NewTable()
	meta.RawSetString("__index", w.backing)
	meta.RawSetString("__newindex", v.denied)
	meta.RawSetString("__metatable", lua.LFalse)
	w.table.Metatable = meta
	if field != nil {
		w.backing.Metatable = v.lazy
		v.backings[w.backing] = w
	}
	v.views[w.table] = w
	return w
}

// compute is the __index of all backings.
func (v *vm) compute(L *lua.LState) int {
	w := v.backings[L.CheckTable(1)]
	name, ok := L.Get(2).(lua.LString)
	if w == nil || !ok {
		L.Push(lua.LNil)
		return 1
	}
	L.Push(v.get(w, string(name)))
	return 1
}

// get is a field of a view.
func (v *vm) get(w *view, name string) lua.LValue {
	if known := w.backing.RawGetString(name); known != lua.LNil || w.field == nil {
		return known
	}
	value := w.field(name)
	if value == nil {
		v.L.RaiseError("there is no field %q; there are %s", cut(name, 40), list(w.names))
	}
	if value != lua.LNil {
		w.backing.RawSetString(name, value)
		w.computed = append(w.computed, name)
		v.dirty = append(v.dirty, w)
	}
	return value
}

// forget ends what views have computed.
func (v *vm) forget() {
	for _, w := range v.dirty {
		for _, name := range w.computed {
			w.backing.RawSetString(name, lua.LNil)
		}
		w.computed = w.computed[:0]
	}
	v.dirty = v.dirty[:0]
}

func list(names []string) string {
	text := ""
	for i, n := range names {
		if i > 0 {
			text += ", "
		}
		text += n
	}
	return text
}

// serverView shows a server. It is kept across calls: what does not change is
// in the backing for good.
type serverView struct {
	*view
	// call is the number of the last call that had it, and place where.
	call  uint64
	place int
	now   *policies.Server
	// read are the values of v.fields that the backing has, once it is not fresh.
	read  []float64
	fresh bool
	// What the backing was made from.
	name, endpoint, role string
	labels               map[string]string
	labelView            *view
	priority, weight     uint32
	maxSessions          int
}

// liveField is what a server has at this moment.
type liveField struct {
	name string
	read func(s *policies.Server) float64
	// flag: 0 is false and 1 true.
	flag bool
}

func (f *liveField) value(n float64) lua.LValue {
	if f.flag {
		return lua.LBool(n != 0)
	}
	return lua.LNumber(n)
}

// kind is that of the values.
func (f *liveField) kind() lua.LValueType {
	if f.flag {
		return lua.LTBool
	}
	return lua.LTNumber
}

// liveFieldOf is the field of that name, nil for none.
func liveFieldOf(name string) *liveField {
	for i := range liveFields {
		if liveFields[i].name == name {
			return &liveFields[i]
		}
	}
	return nil
}

// serverAt is the server that a value of the script shows, nil for anything
// else; i is its place in a list, which it mostly has among the servers of the
// call too.
func (v *vm) serverAt(value lua.LValue, i int) *serverView {
	t, ok := value.(*lua.LTable)
	switch {
	case !ok:
		return nil
	case i < len(v.shown) && v.shown[i].table == t:
		return v.shown[i]
	}
	if w := v.views[t]; w != nil {
		return w.server
	}
	return nil
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

var liveFields = []liveField{
	{"head", func(s *policies.Server) float64 { return float64(s.Head) }, false},
	{"lib", func(s *policies.Server) float64 { return float64(s.LIB) }, false},
	{"lag", func(s *policies.Server) float64 { return float64(s.Lag) }, false},
	{"traces_begin", func(s *policies.Server) float64 { return float64(s.Traces.Begin) }, false},
	{"traces_end", func(s *policies.Server) float64 { return float64(s.Traces.End) }, false},
	{"deltas_begin", func(s *policies.Server) float64 { return float64(s.Deltas.Begin) }, false},
	{"deltas_end", func(s *policies.Server) float64 { return float64(s.Deltas.End) }, false},
	{"finality_begin", func(s *policies.Server) float64 { return float64(s.Finality.Begin) }, false},
	{"finality_end", func(s *policies.Server) float64 { return float64(s.Finality.End) }, false},
	{"run", func(s *policies.Server) float64 { return float64(s.Run) }, false},
	{"linked", func(s *policies.Server) float64 { return float64(s.Linked) }, false},
	{"sessions", func(s *policies.Server) float64 { return float64(s.Sessions) }, false},
	{"in_flight", func(s *policies.Server) float64 { return float64(s.InFlight) }, false},
	{"latency", func(s *policies.Server) float64 { return s.Latency.Seconds() }, false},
	{"errors", func(s *policies.Server) float64 { return float64(s.Errors) }, false},
	{"online", func(s *policies.Server) float64 { return flag(s.Online) }, true},
	{"stale", func(s *policies.Server) float64 { return flag(s.Stale) }, true},
	{"quarantined", func(s *policies.Server) float64 { return flag(s.Quarantined) }, true},
}

// fixedNames are the fields of a server that are as configured.
var fixedNames = []string{"name", "endpoint", "role", "labels", "priority", "weight", "max_sessions"}

// serverNames are all fields of a server.
var serverNames = func() []string {
	names := slices.Clone(fixedNames)
	for _, f := range liveFields {
		names = append(names, f.name)
	}
	return names
}()

// show has the view of a server ready for this call.
func (v *vm) show(s *policies.Server, place int) *serverView {
	for s.ID >= len(v.servers) {
		v.servers = append(v.servers, nil)
	}
	w := v.servers[s.ID]
	if w == nil || w.name != s.Name || w.endpoint != s.Endpoint || w.role != s.Role || w.priority != s.Priority ||
		w.weight != s.Weight || w.maxSessions != s.MaxSessions || !sameLabels(w.labels, s.Labels) {
		if w != nil {
			v.drop(w)
		}
		w = v.newServer(s)
		v.servers[s.ID] = w
	}
	w.call, w.place, w.now = v.call, place, s
	for i, f := range v.fields {
		if n := f.read(s); n != w.read[i] || w.fresh {
			w.read[i] = n
			w.backing.RawSetString(f.name, f.value(n))
		}
	}
	w.fresh = false
	return w
}

// sameLabels compares labels, which are mostly the same map.
func sameLabels(a, b map[string]string) bool {
	return reflect.ValueOf(a).UnsafePointer() == reflect.ValueOf(b).UnsafePointer() || maps.Equal(a, b)
}

func (v *vm) newServer(s *policies.Server) *serverView {
	w := &serverView{fresh: true, read: make([]float64, len(v.fields)), name: s.Name, endpoint: s.Endpoint, role: s.Role, labels: s.Labels, priority: s.Priority, weight: s.Weight, maxSessions: s.MaxSessions}
	w.view = v.newView(serverNames, w.rare)
	w.view.server = w
	w.labelView = v.texts(s.Labels)
	// Only what the script names: a table of up to eight is read quickest.
	for _, name := range fixedNames {
		if v.bundle.mentions(name) {
			w.backing.RawSetString(name, w.fixed(name))
		}
	}
	return w
}

// fixed is a field that is as configured, or nil when there is none of that
// name.
func (w *serverView) fixed(name string) lua.LValue {
	switch name {
	case "name":
		return lua.LString(w.name)
	case "endpoint":
		return lua.LString(w.endpoint)
	case "role":
		return lua.LString(w.role)
	case "labels":
		return w.labelView.table
	case "priority":
		return lua.LNumber(w.priority)
	case "weight":
		return lua.LNumber(w.weight)
	case "max_sessions":
		return lua.LNumber(w.maxSessions)
	}
	return nil
}

// rare is a field that no constant of the script names, or nil when there is
// none of that name.
func (w *serverView) rare(name string) lua.LValue {
	if value := w.fixed(name); value != nil {
		return value
	}
	if f := liveFieldOf(name); f != nil && w.now != nil {
		return f.value(f.read(w.now))
	}
	return nil
}

// drop forgets a view whose server has changed.
func (v *vm) drop(w *serverView) {
	delete(v.views, w.table)
	delete(v.backings, w.backing)
	delete(v.views, w.labelView.table)
}

// texts shows texts by name.
func (v *vm) texts(values map[string]string) *view {
	w := v.newView(nil, nil)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		w.backing.RawSetString(name, lua.LString(values[name]))
	}
	return w
}

var requestNames = []string{"protocol", "listener", "session", "client", "headers", "start_block", "end_block", "block",
	"traces", "deltas", "finality", "irreversible", "class", "path", "methods"}

// requestField is what is known of the request of this call.
func (v *vm) requestField(name string) lua.LValue {
	r := v.now.request
	switch name {
	case "protocol":
		return lua.LString(r.Protocol)
	case "listener":
		return lua.LString(r.Listener)
	case "session":
		return lua.LNumber(r.Session)
	case "client":
		return lua.LString(r.Client)
	case "headers":
		w := v.texts(r.Headers)
		// It ends with the call.
		v.passing = append(v.passing, w)
		return w.table
	case "start_block":
		return lua.LNumber(r.Start)
	case "end_block":
		return lua.LNumber(r.End)
	case "block":
		if r.Start == policies.NoBlock {
			return lua.LNil
		}
		return lua.LNumber(r.Start)
	case "traces":
		return lua.LBool(r.Traces)
	case "deltas":
		return lua.LBool(r.Deltas)
	case "finality":
		return lua.LBool(r.Finality)
	case "irreversible":
		return lua.LBool(r.Irreversible)
	case "class":
		return textOrNil(r.Class)
	case "path":
		return textOrNil(r.Path)
	case "methods":
		t := v.L.CreateTable(len(r.Methods), 0)
		for _, m := range r.Methods {
			t.Append(lua.LString(m))
		}
		return t
	}
	return nil
}

func textOrNil(text string) lua.LValue {
	if text == "" {
		return lua.LNil
	}
	return lua.LString(text)
}

// small are numbers that need no memory of their own any more.
var small = func() (list [1025]lua.LValue) {
	for i := range list {
		list[i] = lua.LNumber(i)
	}
	return list
}()

// ipairsNext is what ipairs goes on with. The interpreter's own allocates an
// index for each item.
func ipairsNext(L *lua.LState) int {
	t, i := L.CheckTable(1), L.CheckInt(2)+1
	value := t.RawGetInt(i)
	if value == lua.LNil {
		return 0
	}
	if i < len(small) {
		L.Push(small[i])
	} else {
		L.Push(lua.LNumber(i))
	}
	L.Push(value)
	return 2
}

// ipairs goes through a list.
func (v *vm) ipairs(L *lua.LState) int {
	t := L.CheckTable(1)
	L.Push(v.ipairsFunction)
	L.Push(t)
	L.Push(small[0])
	return 3
}

// pairs goes through a view as through any table.
func (v *vm) pairs(L *lua.LState) int {
	t := v.readable(L.CheckTable(1))
	L.Push(v.nextFunction)
	L.Push(t)
	L.Push(lua.LNil)
	return 3
}

func (v *vm) next(L *lua.LState) int {
	key, value := v.readable(L.CheckTable(1)).Next(L.Get(2))
	if key == lua.LNil {
		L.Push(lua.LNil)
		return 1
	}
	L.Push(key)
	L.Push(value)
	return 2
}

// readable is a table with the fields of a view, or the table itself. It is a
// copy: with the backing a script could change what others see.
func (v *vm) readable(t *lua.LTable) *lua.LTable {
	w := v.views[t]
	if w == nil {
		return t
	}
	out := v.L.NewTable()
	w.backing.ForEach(func(key, value lua.LValue) { out.RawSet(key, value) })
	for _, name := range w.names {
		if value := v.get(w, name); value != lua.LNil {
			out.RawSetString(name, value)
		}
	}
	return out
}
