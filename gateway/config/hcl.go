package config

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// readHCL reads files into one object, as if they were one file. It returns
// nil, after complaints, when a file cannot be read as HCL.
func readHCL(r *report, sources []*source) *node {
	h := hclReader{report: r, sources: map[string]*source{}}
	var bodies []*hclsyntax.Body
	for _, src := range sources {
		h.sources[src.name] = src
		if !h.checkTokens(src) {
			continue
		}
		file, diags := hclsyntax.ParseConfig(src.text, src.name, hcl.InitialPos)
		h.complain(diags, src)
		if body, ok := file.Body.(*hclsyntax.Body); ok {
			bodies = append(bodies, body)
		}
	}
	if len(r.problems) > 0 {
		return nil
	}
	h.context = &hcl.EvalContext{
		Variables: map[string]cty.Value{"local": cty.EmptyObjectVal},
		Functions: functions,
	}
	h.locals(bodies)
	top := &node{kind: objectNode, at: sources[0].at(0)}
	for _, body := range bodies {
		top.members = append(top.members, h.body(body)...)
	}
	top.members = slices.DeleteFunc(top.members, func(m member) bool { return m.name == localsBlock && m.value.block })
	return top
}

const localsBlock = "locals"

type hclReader struct {
	report  *report
	sources map[string]*source
	context *hcl.EvalContext
	// values counts the values that expressions gave.
	values int
}

// maxValues bounds what expressions may blow up to: a list of locals that are
// lists of locals grows fast.
const maxValues = 200_000

func (h *hclReader) place(r hcl.Range) place {
	return place{h.sources[r.Filename], r.Start.Line, r.Start.Column}
}

func (h *hclReader) complain(diags hcl.Diagnostics, src *source) {
	for _, d := range diags {
		if d.Severity != hcl.DiagError {
			continue
		}
		at := src.at(0)
		if d.Subject != nil && h.sources[d.Subject.Filename] != nil {
			at = h.place(*d.Subject)
		}
		h.report.problem(at, d.Summary, d.Detail)
	}
}

// body is the attributes and blocks of a body as members, in file order.
func (h *hclReader) body(body *hclsyntax.Body) []member {
	var out []member
	for _, attr := range body.Attributes {
		out = append(out, member{attr.Name, h.place(attr.NameRange), h.expression(attr.Expr)})
	}
	for _, block := range body.Blocks {
		at := h.place(block.TypeRange)
		n := &node{at: at, kind: objectNode, block: true}
		for i, label := range block.Labels {
			n.labels = append(n.labels, &node{at: h.place(block.LabelRanges[i]), kind: textNode, text: label})
		}
		switch block.Type {
		case localsBlock:
		case policyField.hcl, stageField.hcl:
			n.raw = &raw{block.Body, h, at.src}
		default:
			n.members = h.body(block.Body)
		}
		out = append(out, member{block.Type, at, n})
	}
	slices.SortStableFunc(out, func(a, b member) int {
		return cmp.Or(cmp.Compare(a.at.line, b.at.line), cmp.Compare(a.at.column, b.at.column))
	})
	return out
}

// expression evaluates an expression. Lists and objects keep the place of each
// of their values.
func (h *hclReader) expression(expr hclsyntax.Expression) *node {
	at := h.place(expr.Range())
	switch e := expr.(type) {
	case *hclsyntax.TupleConsExpr:
		n := &node{at: at, kind: listNode}
		for _, item := range e.Exprs {
			n.items = append(n.items, h.expression(item))
		}
		return n
	case *hclsyntax.ObjectConsExpr:
		n := &node{at: at, kind: objectNode}
		for _, item := range e.Items {
			key := h.evaluate(item.KeyExpr)
			if key.kind != textNode {
				if key.kind != brokenNode {
					h.report.problem(key.at, "a name is "+key.describe(), "a name is a word or a text")
				}
				continue
			}
			n.members = append(n.members, member{key.text, key.at, h.expression(item.ValueExpr)})
		}
		return n
	default:
		return h.evaluate(expr)
	}
}

func (h *hclReader) evaluate(expr hclsyntax.Expression) *node {
	at := h.place(expr.Range())
	value, diags := expr.Value(h.context)
	if diags.HasErrors() {
		h.complain(diags, at.src)
		return &node{at: at}
	}
	return h.value(value, at)
}

func (h *hclReader) value(v cty.Value, at place) *node {
	n := &node{at: at}
	if h.values++; h.values >= maxValues {
		if h.values == maxValues {
			h.report.problem(at, "the expressions give too many values", fmt.Sprintf("at most %d", maxValues))
		}
		return n
	}
	switch {
	case !v.IsKnown() || v.IsMarked():
		h.report.problem(at, "the value cannot be computed", "")
	case v.IsNull():
		n.kind = nullNode
	case v.Type() == cty.String:
		n.kind, n.text = textNode, v.AsString()
	case v.Type() == cty.Bool:
		n.kind, n.flag = flagNode, v.True()
	case v.Type() == cty.Number:
		n.kind = numberNode
		if f := v.AsBigFloat(); f.IsInt() && f.MantExp(nil) <= 64 {
			n.text = f.Text('f', 0)
		} else {
			n.text = f.Text('g', 20)
		}
	case v.Type().IsObjectType() || v.Type().IsMapType():
		n.kind = objectNode
		for key, item := range v.AsValueMap() {
			n.members = append(n.members, member{key, at, h.value(item, at)})
		}
		slices.SortFunc(n.members, func(a, b member) int { return cmp.Compare(a.name, b.name) })
	case v.CanIterateElements():
		n.kind = listNode
		for _, item := range v.AsValueSlice() {
			n.items = append(n.items, h.value(item, at))
		}
	default:
		h.report.problem(at, "the value is of a kind that no setting has", "")
	}
	return n
}

// locals evaluates the locals blocks. A local may use others, in any order.
func (h *hclReader) locals(bodies []*hclsyntax.Body) {
	l := localValues{reader: h, exprs: map[string]*hclsyntax.Attribute{}, values: map[string]cty.Value{}, open: map[string]bool{}}
	var names []string
	for _, body := range bodies {
		for _, block := range body.Blocks {
			if block.Type != localsBlock {
				continue
			}
			if len(block.Labels) > 0 {
				h.report.problem(h.place(block.LabelRanges[0]), "locals has a label", "write locals { name = value }")
			}
			for _, inner := range block.Body.Blocks {
				h.report.problem(h.place(inner.TypeRange), fmt.Sprintf("locals has a block %q", inner.Type), "write locals { name = value }")
			}
			for name, attr := range block.Body.Attributes {
				if first := l.exprs[name]; first != nil {
					h.report.problem(h.place(attr.NameRange), fmt.Sprintf("local.%s is given twice", name),
						fmt.Sprintf("the other one is in line %d of %s", first.NameRange.Start.Line, first.NameRange.Filename))
					continue
				}
				if len(names) == maxLocals {
					h.report.problem(h.place(attr.NameRange), "there are too many locals", fmt.Sprintf("at most %d", maxLocals))
					return
				}
				l.exprs[name] = attr
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	for _, name := range names {
		l.evaluate(name)
	}
	h.context.Variables["local"] = cty.ObjectVal(l.values)
}

// maxLocals bounds how many locals there are, and so the chain of those that
// use each other.
const maxLocals = 1000

// maxLocalText bounds the text of one local, in bytes.
const maxLocalText = 64 << 10

type localValues struct {
	reader *hclReader
	exprs  map[string]*hclsyntax.Attribute
	values map[string]cty.Value
	// open holds the names whose evaluation has begun and not ended.
	open map[string]bool
}

// evaluate sets the value of a local after those that it uses. One that cannot
// be had is null, after a complaint.
func (l *localValues) evaluate(name string) {
	attr := l.exprs[name]
	if _, done := l.values[name]; done || attr == nil {
		return
	}
	at := l.reader.place(attr.NameRange)
	if l.open[name] {
		l.reader.report.problem(at, fmt.Sprintf("local.%s uses itself, through the locals that it uses", name), "break the circle")
		l.values[name] = cty.NullVal(cty.DynamicPseudoType)
		return
	}
	l.open[name] = true
	defer delete(l.open, name)
	for _, used := range attr.Expr.Variables() {
		if used.RootName() != "local" || len(used) < 2 {
			continue
		}
		if step, ok := used[1].(hcl.TraverseAttr); ok {
			l.evaluate(step.Name)
		}
	}
	if _, failed := l.values[name]; failed {
		return
	}
	value, diags := attr.Expr.Value(&hcl.EvalContext{
		Variables: map[string]cty.Value{"local": cty.ObjectVal(l.values)},
		Functions: functions,
	})
	l.reader.complain(diags, at.src)
	if !diags.HasErrors() && value.Type() == cty.String && value.IsKnown() && !value.IsNull() && len(value.AsString()) > maxLocalText {
		l.reader.report.problem(at, fmt.Sprintf("local.%s is too long", name), fmt.Sprintf("at most %d bytes", maxLocalText))
		value = cty.NullVal(cty.String)
	}
	l.values[name] = value
}

// maxDepth and maxOperators bound what the HCL parser, which recurses, gets to
// see: without them a hostile file could exhaust its stack.
const (
	maxDepth     = 100
	maxOperators = 5000
	// maxOpenComments bounds comments that are not closed: for each of them the
	// lexer goes through the rest of the file.
	maxOpenComments = 100
	// maxHeredocFile is the most bytes of a file that has a heredoc, whose
	// lines take the lexer longer the more there are.
	maxHeredocFile = 64 << 10
)

var hugeNumber = regexp.MustCompile(`^\s*[0-9.]+[eE][+-]?[0-9]{4,}\s*$`)

// checkTokens refuses what would take too long to parse or to evaluate, and
// arithmetic with it: settings are values, not programs.
func (h *hclReader) checkTokens(src *source) bool {
	rest := src.text[bytes.LastIndex(src.text, []byte("*/"))+1:]
	switch {
	case bytes.Count(rest, []byte("/*")) > maxOpenComments:
		h.report.problem(src.at(len(src.text)-len(rest)), "there are too many comments that are not closed", "a comment /* ends with */")
		return false
	case len(src.text) > maxHeredocFile && bytes.Contains(src.text, []byte("<<")):
		h.report.problem(src.at(bytes.Index(src.text, []byte("<<"))), "the file is too large for texts of the form <<NAME",
			fmt.Sprintf("at most %d bytes; a quoted text has no such limit", maxHeredocFile))
		return false
	}
	// Errors of the lexer come up again in the parser.
	tokens, _ := hclsyntax.LexConfig(src.text, src.name, hcl.InitialPos)
	var open []hclsyntax.TokenType
	operators := 0
	before := hclsyntax.TokenNil
	for _, t := range tokens {
		switch t.Type {
		case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenOParen, hclsyntax.TokenTemplateInterp, hclsyntax.TokenTemplateControl:
			open = append(open, t.Type)
			if t.Type == hclsyntax.TokenOBrack || t.Type == hclsyntax.TokenOParen {
				// An index or a call.
				operators++
			}
		case hclsyntax.TokenCBrace, hclsyntax.TokenCBrack, hclsyntax.TokenCParen, hclsyntax.TokenTemplateSeqEnd:
			open = open[:max(0, len(open)-1)]
		case hclsyntax.TokenNewline:
			if len(open) == 0 || open[len(open)-1] == hclsyntax.TokenOBrace {
				operators = 0
			}
		case hclsyntax.TokenIdent:
			switch before {
			case hclsyntax.TokenOBrace, hclsyntax.TokenOBrack, hclsyntax.TokenTemplateControl:
				if string(t.Bytes) == "for" {
					h.report.problem(h.place(t.Range), "for expressions are not supported", "write the values out")
					return false
				}
			}
		case hclsyntax.TokenPlus, hclsyntax.TokenMinus, hclsyntax.TokenStar, hclsyntax.TokenSlash, hclsyntax.TokenPercent,
			hclsyntax.TokenLessThan, hclsyntax.TokenLessThanEq, hclsyntax.TokenGreaterThan, hclsyntax.TokenGreaterThanEq:
			h.report.problem(h.place(t.Range), fmt.Sprintf("the expression has a %q; arithmetic is not supported", t.Bytes),
				"write the value itself, which is never negative")
			return false
		case hclsyntax.TokenNumberLit, hclsyntax.TokenQuotedLit:
			// Working out such a number takes minutes, and it would be as long
			// for a text that is used as a number.
			if hugeNumber.Match(t.Bytes) {
				h.report.problem(h.place(t.Range), "the number is out of any range", "an exponent has at most three digits")
				return false
			}
		case hclsyntax.TokenComma, hclsyntax.TokenEqual, hclsyntax.TokenComment, hclsyntax.TokenOQuote, hclsyntax.TokenCQuote,
			hclsyntax.TokenStringLit, hclsyntax.TokenEOF:
		default:
			operators++
		}
		if t.Type != hclsyntax.TokenNewline {
			before = t.Type
		}
		if len(open) > maxDepth || operators > maxOperators {
			h.report.problem(h.place(t.Range), "the expression is too deep or too long", fmt.Sprintf("at most %d levels and %d operators", maxDepth, maxOperators))
			return false
		}
	}
	return true
}
