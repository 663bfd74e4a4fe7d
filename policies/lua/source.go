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

// compile makes a script runnable. name is the file, for messages.
func compile(name, text string) (proto *lua.FunctionProto, err error) {
	if len(text) > maxSource {
		return nil, fmt.Errorf("%s has %d bytes; at most %d are read", name, len(text), maxSource)
	}
	// The compiler panics for what it has no room for.
	defer func() {
		if r := recover(); r != nil {
			proto, err = nil, fmt.Errorf("%s cannot be compiled: %v", name, r)
		}
	}()
	chunk, err := parse.Parse(strings.NewReader(text), name)
	if err != nil {
		var wrong *parse.Error
		if errors.As(err, &wrong) {
			return nil, fmt.Errorf("%s:%d: %s near %q", name, wrong.Pos.Line, wrong.Message, wrong.Token)
		}
		return nil, err
	}
	boundConcat(chunk)
	proto, err = lua.Compile(chunk, name)
	if err != nil {
		var wrong *lua.CompileError
		if errors.As(err, &wrong) {
			return nil, fmt.Errorf("%s:%d: %s", name, wrong.Line, wrong.Message)
		}
		return nil, err
	}
	return proto, nil
}

// concatName is the function that stands for the operator .. ; no script can
// name it, as it is no word.
const concatName = "(concat)"

// boundConcat replaces the operator .. by calls of a function that has a limit:
// the interpreter's own doubles a text without end.
func boundConcat(chunk []ast.Stmt) { walkStmts(chunk) }

func walkStmts(list []ast.Stmt) {
	for _, stmt := range list {
		switch s := stmt.(type) {
		case *ast.AssignStmt:
			walkList(s.Lhs)
			walkList(s.Rhs)
		case *ast.LocalAssignStmt:
			walkList(s.Exprs)
		case *ast.FuncCallStmt:
			s.Expr = walk(s.Expr)
		case *ast.DoBlockStmt:
			walkStmts(s.Stmts)
		case *ast.WhileStmt:
			s.Condition = walk(s.Condition)
			walkStmts(s.Stmts)
		case *ast.RepeatStmt:
			s.Condition = walk(s.Condition)
			walkStmts(s.Stmts)
		case *ast.IfStmt:
			s.Condition = walk(s.Condition)
			walkStmts(s.Then)
			walkStmts(s.Else)
		case *ast.NumberForStmt:
			s.Init, s.Limit, s.Step = walk(s.Init), walk(s.Limit), walk(s.Step)
			walkStmts(s.Stmts)
		case *ast.GenericForStmt:
			walkList(s.Exprs)
			walkStmts(s.Stmts)
		case *ast.FuncDefStmt:
			s.Name.Func, s.Name.Receiver = walk(s.Name.Func), walk(s.Name.Receiver)
			walk(s.Func)
		case *ast.ReturnStmt:
			walkList(s.Exprs)
		}
	}
}

func walkList(list []ast.Expr) {
	for i := range list {
		list[i] = walk(list[i])
	}
}

// walk returns what stands for an expression; nil for nil.
func walk(expr ast.Expr) ast.Expr {
	switch e := expr.(type) {
	case *ast.StringConcatOpExpr:
		name := &ast.IdentExpr{Value: concatName}
		call := &ast.FuncCallExpr{Func: name, Args: []ast.Expr{walk(e.Lhs), walk(e.Rhs)}}
		for _, n := range []ast.PositionHolder{name, call} {
			n.SetLine(e.Line())
			n.SetLastLine(e.LastLine())
		}
		return call
	case *ast.AttrGetExpr:
		e.Object, e.Key = walk(e.Object), walk(e.Key)
	case *ast.TableExpr:
		for _, f := range e.Fields {
			f.Key, f.Value = walk(f.Key), walk(f.Value)
		}
	case *ast.FuncCallExpr:
		e.Func, e.Receiver = walk(e.Func), walk(e.Receiver)
		walkList(e.Args)
	case *ast.LogicalOpExpr:
		e.Lhs, e.Rhs = walk(e.Lhs), walk(e.Rhs)
	case *ast.RelationalOpExpr:
		e.Lhs, e.Rhs = walk(e.Lhs), walk(e.Rhs)
	case *ast.ArithmeticOpExpr:
		e.Lhs, e.Rhs = walk(e.Lhs), walk(e.Rhs)
	case *ast.UnaryMinusOpExpr:
		e.Expr = walk(e.Expr)
	case *ast.UnaryNotOpExpr:
		e.Expr = walk(e.Expr)
	case *ast.UnaryLenOpExpr:
		e.Expr = walk(e.Expr)
	case *ast.FunctionExpr:
		walkStmts(e.Stmts)
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
	read   func(path string) (string, error)
	protos map[string]*lua.FunctionProto
}

// newBundle compiles a script and the modules that are known already.
func newBundle(script string, sources map[string]string, read func(string) (string, error)) (*bundle, error) {
	b := &bundle{script: script, sources: sources, read: read, protos: map[string]*lua.FunctionProto{}}
	for path, text := range sources {
		proto, err := compile(path, text)
		if err != nil {
			return nil, err
		}
		b.protos[path] = proto
	}
	return b, nil
}

// proto is a module, compiled.
func (b *bundle) proto(path string) (*lua.FunctionProto, error) {
	if p := b.protos[path]; p != nil {
		return p, nil
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
	p, err := compile(path, text)
	if err != nil {
		return nil, err
	}
	b.sources[path], b.protos[path] = text, p
	return p, nil
}

// modulePath is the path of a module that a script includes: in the script's
// folder, or below.
func modulePath(script, name string) (string, error) {
	if !filepath.IsLocal(name) || filepath.Ext(name) != ".lua" {
		return "", fmt.Errorf("include %q: the name of a .lua file in the folder of the script, or below it, is expected", name)
	}
	return filepath.Join(filepath.Dir(script), name), nil
}
