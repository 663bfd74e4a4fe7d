package lua

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/ast"
	"github.com/yuin/gopher-lua/parse"
)

// maxSource is the most bytes of one script or module.
const maxSource = 64 << 10

// unit is one file, compiled.
type unit struct {
	proto *lua.FunctionProto
	// words are the constant texts in it: a field that is not among them is not
	// read, unless its name is computed.
	words map[string]bool
}

// compile makes a script runnable. name is the file, for messages.
func compile(name, text string) (u *unit, err error) {
	if len(text) > maxSource {
		return nil, fmt.Errorf("%s has %d bytes; at most %d are read", name, len(text), maxSource)
	}
	// The compiler panics for what it has no room for.
	defer func() {
		if r := recover(); r != nil {
			u, err = nil, fmt.Errorf("%s cannot be compiled: %v", name, r)
		}
	}()
	chunk, err := parse.Parse(strings.NewReader(text), name)
	if err != nil {
		var wrong *parse.Error
		if errors.As(err, &wrong) {
			if wrong.Pos.Line < 1 {
				return nil, fmt.Errorf("%s:%d: %s: the file ends too early", name, 1+strings.Count(text, "\n"), wrong.Message)
			}
			return nil, fmt.Errorf("%s:%d: %s near %q", name, wrong.Pos.Line, wrong.Message, wrong.Token)
		}
		return nil, err
	}
	w := rewriter{words: map[string]bool{}}
	w.stmts(chunk)
	proto, err := lua.Compile(chunk, name)
	if err != nil {
		var wrong *lua.CompileError
		if errors.As(err, &wrong) {
			return nil, fmt.Errorf("%s:%d: %s", name, wrong.Line, wrong.Message)
		}
		return nil, err
	}
	return &unit{proto, w.words}, nil
}

// concatName is the function that stands for the operator .. ; no script can
// name it, as it is no word.
const concatName = "(concat)"

// rewriter replaces the operator .. by calls of a function that has a limit: the
// interpreter's own doubles a text without end. On its way it gathers words.
type rewriter struct{ words map[string]bool }

func (w *rewriter) stmts(list []ast.Stmt) {
	for _, stmt := range list {
		switch s := stmt.(type) {
		case *ast.AssignStmt:
			w.list(s.Lhs)
			w.list(s.Rhs)
		case *ast.LocalAssignStmt:
			w.list(s.Exprs)
		case *ast.FuncCallStmt:
			s.Expr = w.expr(s.Expr)
		case *ast.DoBlockStmt:
			w.stmts(s.Stmts)
		case *ast.WhileStmt:
			s.Condition = w.expr(s.Condition)
			w.stmts(s.Stmts)
		case *ast.RepeatStmt:
			s.Condition = w.expr(s.Condition)
			w.stmts(s.Stmts)
		case *ast.IfStmt:
			s.Condition = w.expr(s.Condition)
			w.stmts(s.Then)
			w.stmts(s.Else)
		case *ast.NumberForStmt:
			s.Init, s.Limit, s.Step = w.expr(s.Init), w.expr(s.Limit), w.expr(s.Step)
			w.stmts(s.Stmts)
		case *ast.GenericForStmt:
			w.list(s.Exprs)
			w.stmts(s.Stmts)
		case *ast.FuncDefStmt:
			s.Name.Func, s.Name.Receiver = w.expr(s.Name.Func), w.expr(s.Name.Receiver)
			w.expr(s.Func)
		case *ast.ReturnStmt:
			w.list(s.Exprs)
		}
	}
}

func (w *rewriter) list(list []ast.Expr) {
	for i := range list {
		list[i] = w.expr(list[i])
	}
}

// expr returns what stands for an expression; nil for nil.
func (w *rewriter) expr(expr ast.Expr) ast.Expr {
	switch e := expr.(type) {
	case *ast.StringConcatOpExpr:
		name := &ast.IdentExpr{Value: concatName}
		call := &ast.FuncCallExpr{Func: name, Args: []ast.Expr{w.expr(e.Lhs), w.expr(e.Rhs)}}
		for _, n := range []ast.PositionHolder{name, call} {
			n.SetLine(e.Line())
			n.SetLastLine(e.LastLine())
		}
		return call
	case *ast.StringExpr:
		w.words[e.Value] = true
	case *ast.AttrGetExpr:
		e.Object, e.Key = w.expr(e.Object), w.expr(e.Key)
	case *ast.TableExpr:
		for _, f := range e.Fields {
			f.Key, f.Value = w.expr(f.Key), w.expr(f.Value)
		}
	case *ast.FuncCallExpr:
		e.Func, e.Receiver = w.expr(e.Func), w.expr(e.Receiver)
		w.list(e.Args)
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = w.expr(e.Lhs), w.expr(e.Rhs)
	case *ast.RelationalOpExpr:
		e.Lhs, e.Rhs = w.expr(e.Lhs), w.expr(e.Rhs)
	case *ast.ArithmeticOpExpr:
		e.Lhs, e.Rhs = w.expr(e.Lhs), w.expr(e.Rhs)
	case *ast.UnaryMinusOpExpr:
		e.Expr = w.expr(e.Expr)
	case *ast.UnaryNotOpExpr:
		e.Expr = w.expr(e.Expr)
	case *ast.UnaryLenOpExpr:
		e.Expr = w.expr(e.Expr)
	case *ast.FunctionExpr:
		w.stmts(e.Stmts)
	}
	return expr
}

// maxModules is how many modules a script may include.
const maxModules = 32

// bundle is a script with the modules that it includes. It is safe for
// concurrent use once the script has been run.
type bundle struct {
	script string
	// sources are the texts by path.
	sources map[string]string
	// read reads a module that is not in sources; nil when all are there.
	read  func(path string) (string, error)
	units map[string]*unit
}

// newBundle compiles a script and the modules that are known already.
func newBundle(script string, sources map[string]string, read func(string) (string, error)) (*bundle, error) {
	b := &bundle{script: script, sources: sources, read: read, units: map[string]*unit{}}
	for path, text := range sources {
		u, err := compile(path, text)
		if err != nil {
			return nil, err
		}
		b.units[path] = u
	}
	return b, nil
}

// proto is a module, compiled.
func (b *bundle) proto(path string) (*lua.FunctionProto, error) {
	if u := b.units[path]; u != nil {
		return u.proto, nil
	}
	if b.read == nil {
		return nil, fmt.Errorf("%s was not included when the script was loaded", path)
	}
	if len(b.sources) > maxModules {
		return nil, fmt.Errorf("a script has at most %d modules", maxModules)
	}
	text, err := b.read(path)
	if err != nil {
		return nil, err
	}
	u, err := compile(path, text)
	if err != nil {
		return nil, err
	}
	b.sources[path], b.units[path] = text, u
	return u.proto, nil
}

// mentions reports whether a word is in any of the files.
func (b *bundle) mentions(word string) bool {
	for _, u := range b.units {
		if u.words[word] {
			return true
		}
	}
	return false
}

// modulePath is the path of a module that a script includes: in the script's
// folder, or below.
func modulePath(script, name string) (string, error) {
	if !filepath.IsLocal(name) || filepath.Ext(name) != ".lua" {
		return "", fmt.Errorf("include %q: the name of a .lua file in the folder of the script, or below it, is expected", name)
	}
	return filepath.Join(filepath.Dir(script), name), nil
}
