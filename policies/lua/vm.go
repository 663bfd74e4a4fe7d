package lua

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"flotilla/policies"

	lua "github.com/yuin/gopher-lua"
)

// vm is one state of the interpreter with the script in it. One request at a
// time uses it.
type vm struct {
	L      *lua.LState
	guard  *guard
	bundle *bundle
	// env is what all states of a script share.
	env *shared

	// choose and rate are the script's functions; one of them may be nil.
	choose, rate *lua.LFunction
	// loading: the script is being run for the first time, and may include.
	loading  bool
	included map[string]lua.LValue
	depth    int

	// nested is how many pcalls are under way.
	nested int

	// call numbers the calls.
	call uint64
	now  struct {
		request *policies.Request
	}
	request *view
	// fields are those of servers that the script reads and that change.
	fields []*liveField
	// servers are the views by the IDs of the servers, which are small; shown are
	// those of the call, in the order of its servers.
	servers  []*serverView
	shown    []*serverView
	views    map[*lua.LTable]*view
	backings map[*lua.LTable]*view
	dirty    []*view
	passing  []*view
	kept     []*policies.Server
	// rating calls rate for each server; nonsense is what is wrong with a score,
	// and scores are the others.
	rating   *lua.LFunction
	nonsense string
	scores   []scored
	// sorting is room for table.sort.
	sorting []lua.LValue

	lazy   *lua.LTable
	denied *lua.LFunction
	// nextFunction and ipairsFunction are what pairs and ipairs go on with.
	nextFunction, ipairsFunction *lua.LFunction
}

// failure is why a call came to nothing.
type failure struct {
	kind Kind
	// text is the message, with file and line where there are any; stack are
	// the calls that led there.
	text, stack string
}

func (f *failure) Error() string { return f.text }

// newVM runs the script, which defines its functions.
func newVM(b *bundle, env *shared) (*vm, error) {
	v := &vm{
		L:      lua.NewState(lua.Options{SkipOpenLibs: true, CallStackSize: maxCalls, RegistrySize: 1024, RegistryMaxSize: maxValues, RegistryGrowStep: 1024}),
		bundle: b, env: env, included: map[string]lua.LValue{},
		views: map[*lua.LTable]*view{}, backings: map[*lua.LTable]*view{},
	}
	v.guard = &guard{Context: context.Background()}
	v.L.SetContext(v.guard)
	v.lazy = v.L.NewTable()
	v.lazy.RawSetString("__index", v.L.NewFunction(v.compute))
	v.denied = v.L.NewFunction(func(L *lua.LState) int { L.RaiseError("%s", readOnly); return 0 })
	v.open()
	v.ipairsFunction = v.L.NewFunction(ipairsNext)
	v.nextFunction = v.L.G.Global.RawGetString("next").(*lua.LFunction)
	v.rating = v.L.NewFunction(v.rateAll)
	v.request = v.newView(requestNames, v.requestField)
	v.L.G.Global.RawSetString("state", v.stateTable())

	v.guard.begin(loading)
	v.loading = true
	v.L.Push(v.L.NewFunctionFromProto(b.units[b.script].proto))
	err := v.L.PCall(0, 0, nil)
	v.loading = false
	v.guard.end()
	if err != nil {
		return nil, v.failed(err)
	}
	for i := range liveFields {
		if f := &liveFields[i]; b.mentions(f.name) {
			v.fields = append(v.fields, f)
		}
	}
	v.choose, _ = v.L.G.Global.RawGetString("select").(*lua.LFunction)
	if v.choose != nil && v.choose.IsG {
		// Lua's own function of that name.
		v.choose = nil
	}
	v.rate, _ = v.L.G.Global.RawGetString("score").(*lua.LFunction)
	if v.choose == nil && v.rate == nil {
		return nil, &failure{kind: KindError, text: b.script + " defines neither select(request, servers) nor score(request, server)"}
	}
	return v, nil
}

// failed makes an error of the interpreter a failure.
func (v *vm) failed(err error) *failure {
	f := &failure{kind: KindError, text: err.Error()}
	if e, ok := err.(*lua.ApiError); ok {
		f.stack = e.StackTrace
		if f.text = "the error is no text"; e.Object != nil && lua.LVCanConvToString(e.Object) {
			f.text = lua.LVAsString(e.Object)
		} else if e.Object == nil || e.Object == lua.LNil {
			f.text = firstLine(err.Error())
		}
	}
	if v.guard.over != "" {
		f.kind = v.guard.over
	}
	f.text = cut(f.text, 300)
	return f
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

// order asks the script. The result is its own until the next call. servers are
// left as they are.
func (v *vm) order(r *policies.Request, servers []*policies.Server, l limits) (kept []*policies.Server, failed *failure) {
	v.call++
	v.now.request = r
	v.nested = 0
	v.guard.begin(l)
	defer func() {
		v.guard.end()
		v.forget()
		v.now.request = nil
		for _, w := range v.passing {
			delete(v.views, w.table)
		}
		v.passing = v.passing[:0]
		for _, w := range v.shown {
			w.now = nil
		}
		v.L.SetTop(0)
	}()
	v.shown = v.shown[:0]
	for i, s := range servers {
		v.shown = append(v.shown, v.show(s, i))
	}
	kept = append(v.kept[:0], servers...)
	if v.rate != nil {
		if kept, failed = v.rated(); failed != nil {
			return nil, failed
		}
	}
	if v.choose != nil && len(kept) > 0 {
		if kept, failed = v.chosen(kept); failed != nil {
			return nil, failed
		}
	}
	v.kept = kept
	if len(kept) == 0 {
		return nil, &failure{kind: KindEmpty, text: "the script keeps no server"}
	}
	return kept, nil
}

// run calls the function that is on the stack below its arguments.
func (v *vm) run(arguments, results int) *failure {
	if err := v.L.PCall(arguments, results, nil); err != nil {
		return v.failed(err)
	}
	if v.guard.exceeded() {
		// It ended just then, or has caught the error.
		return &failure{kind: v.guard.over, text: v.bundle.script + ": " + v.guard.Err().Error()}
	}
	return nil
}

// chosen calls select. list are the servers that it gets, which it
// overwrites.
func (v *vm) chosen(list []*policies.Server) ([]*policies.Server, *failure) {
	arg := v.L.CreateTable(len(list), 0)
	for _, s := range list {
		arg.Append(v.servers[s.ID].table)
	}
	v.L.Push(v.choose)
	v.L.Push(v.request.table)
	v.L.Push(arg)
	if failed := v.run(2, 1); failed != nil {
		return nil, failed
	}
	value := v.L.Get(-1)
	v.L.Pop(1)
	nonsense := func(format string, args ...any) *failure {
		return &failure{kind: KindResult, text: v.bundle.script + ": select returned " + fmt.Sprintf(format, args...)}
	}
	t, ok := value.(*lua.LTable)
	if !ok {
		return nil, nonsense("a %s value, a table of servers is expected", value.Type())
	}
	if v.views[t] != nil {
		return nil, nonsense("a single server or the request, a table of servers is expected")
	}
	n := t.MaxN()
	if n > len(v.shown) {
		return nil, nonsense("%d servers, and was given %d", n, len(v.shown))
	}
	list = list[:0]
	for i := 1; i <= n; i++ {
		item := t.RawGetInt(i)
		w := v.serverAt(item, i-1)
		switch {
		case item.Type() != lua.LTTable:
			return nil, nonsense("a %s value at place %d", item.Type(), i)
		case w == nil:
			return nil, nonsense("a table that is no server at place %d", i)
		case w.call != v.call || w.now == nil:
			return nil, nonsense("server %q at place %d, which it was not given", w.name, i)
		case w.place < 0:
			return nil, nonsense("server %q twice", w.name)
		}
		w.place = -1
		list = append(list, w.now)
	}
	if n == 0 {
		if key, _ := t.Next(lua.LNil); key != lua.LNil {
			return nil, nonsense("a table without a list")
		}
	}
	return list, nil
}

// scored is a server with its score.
type scored struct {
	*serverView
	score float64
}

// rated calls score for each server and sorts, the highest first. All calls are
// protected by one, which costs as much as several of them.
func (v *vm) rated() ([]*policies.Server, *failure) {
	v.scores = v.scores[:0]
	v.nonsense = ""
	v.L.Push(v.rating)
	if failed := v.run(0, 0); failed != nil {
		return nil, failed
	}
	if v.nonsense != "" {
		return nil, &failure{kind: KindResult, text: v.bundle.script + ": " + v.nonsense}
	}
	slices.SortStableFunc(v.scores, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	kept := v.kept[:0]
	for i := range v.scores {
		r := &v.scores[i]
		if math.IsNaN(r.score) {
			return nil, &failure{kind: KindResult, text: fmt.Sprintf("%s: the score of server %q is not a number", v.bundle.script, r.name)}
		}
		kept = append(kept, r.now)
	}
	return kept, nil
}

// rateAll fills v.scores.
func (v *vm) rateAll(L *lua.LState) int {
	for _, w := range v.shown {
		L.Push(v.rate)
		L.Push(v.request.table)
		L.Push(w.table)
		L.Call(2, 1)
		value := L.Get(-1)
		L.Pop(1)
		switch n := value.(type) {
		case lua.LNumber:
			v.scores = append(v.scores, scored{w, float64(n)})
		default:
			if !lua.LVIsFalse(value) {
				v.nonsense = fmt.Sprintf("the score of server %q is a %s value", w.name, value.Type())
				return 0
			}
		}
	}
	return 0
}

// maxWeight is how many bytes a state may hold on to between calls, roughly.
const maxWeight = 8 << 20

// weigh estimates what the script holds on to, and stops where it is too much.
func (v *vm) weigh() int {
	w := scale{seen: map[any]bool{}}
	w.add(v.L.G.Global)
	w.add(v.choose)
	w.add(v.rate)
	return w.bytes
}

type scale struct {
	bytes int
	seen  map[any]bool
}

func (w *scale) add(value lua.LValue) {
	if w.bytes > maxWeight {
		return
	}
	switch x := value.(type) {
	case lua.LString:
		w.bytes += 16 + len(x)
	case *lua.LTable:
		if x == nil || w.seen[x] {
			return
		}
		w.seen[x] = true
		w.bytes += 200 + 16*x.MaxN()
		x.ForEach(func(key, value lua.LValue) {
			w.bytes += 48
			w.add(key)
			w.add(value)
		})
		w.add(x.Metatable)
	case *lua.LFunction:
		if x == nil || w.seen[x] {
			return
		}
		w.seen[x] = true
		w.bytes += 100
		for _, up := range x.Upvalues {
			if up != nil {
				w.add(up.Value())
			}
		}
	}
}
