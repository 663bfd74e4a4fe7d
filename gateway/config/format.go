package config

import (
	"encoding/hex"
	"reflect"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// FormatHCL writes a configuration as HCL. Loading it gives an equal Config,
// apart from Path and Single. Fields that have HCL's default are left out.
//
// A configuration that HCL does not take, such as one with two servers of one
// name from a fleet-router file, is written all the same; loading it then says
// what is wrong.
func FormatHCL(cfg *Config) []byte {
	doc := &document{config: *cfg, top: *newTarget[*draft](listenerSchema)}
	for _, l := range cfg.Listeners {
		own := &draft{Listener: *l, protocol: "ship"}
		if api := l.ownTLS(); api != nil {
			own.api = &apiDraft{ChainAPI: *api}
		}
		doc.listeners = append(doc.listeners, own)
	}
	for _, l := range cfg.EVM {
		doc.evm = append(doc.evm, &evmDraft{EVM: *l, protocol: "evm"})
	}
	if len(doc.listeners) > 1 {
		shareSettings(doc)
	}
	w := formatter{top: &doc.top}
	file := hclwrite.NewEmptyFile()
	if cfg.Single {
		comment(file.Body(), `# The listener had no name of its own. Metrics of several listeners carry listener="default".`)
	}
	w.body(file.Body(), hclRoot, doc, newTarget[*document](hclRoot))
	return hclwrite.Format(file.Bytes())
}

// shareSettings moves what all listeners have in common to the defaults.
func shareSettings(doc *document) {
	for i := range settings {
		f := &settings[i]
		first := valueOf(f, &doc.listeners[0].Listener)
		same := true
		for _, l := range doc.listeners[1:] {
			same = same && reflect.DeepEqual(first, valueOf(f, &l.Listener))
		}
		if same {
			copyField(f, &doc.top.Listener, &doc.listeners[0].Listener)
		}
	}
}

// newTarget is an object with HCL's defaults.
func newTarget[T any](s *schema) T {
	target := s.fresh()
	s.setDefaults(target, inHCL)
	return target.(T)
}

func valueOf(f *field, target any) any { return reflect.ValueOf(f.at(target)).Elem().Interface() }

type formatter struct {
	// top is what listeners inherit.
	top *draft
}

// body writes the fields of target that differ from those of base.
func (w *formatter) body(body *hclwrite.Body, s *schema, target, base any) {
	named := map[string]bool{"protocol": true, "name": true}
	for i := range s.fields {
		f := &s.fields[i]
		switch {
		case f.hcl == "" || named[f.hcl]:
		case f.kind == opaque:
			for _, b := range f.blocks(target) {
				if len(body.Attributes()) > 0 || len(body.Blocks()) > 0 {
					body.AppendNewline()
				}
				b.write(f.hcl, body)
			}
		case f.kind == object || f.kind == objects:
			w.children(body, f, target)
		case f.required&inHCL != 0 || !reflect.DeepEqual(valueOf(f, target), valueOf(f, base)):
			body.SetAttributeValue(f.hcl, f.write(valueOf(f, target)))
		}
	}
}

func (w *formatter) children(body *hclwrite.Body, f *field, parent any) {
	shared := f
	for _, child := range shared.children(parent) {
		f := shared
		if f.variant != nil {
			if other := f.variant(child); other != nil {
				f = other
			}
		}
		base := f.sub.fresh()
		f.sub.setDefaults(base, inHCL)
		if l, ok := base.(*draft); ok && f.kind == objects {
			for i := range settings {
				copyField(&settings[i], &l.Listener, &w.top.Listener)
			}
		}
		if f.inline {
			body.SetAttributeValue(f.hcl, inline(f.sub, child))
			continue
		}
		var labels []string
		for _, label := range f.labels {
			labels = append(labels, valueOf(f.sub.byKey(label), child).(string))
		}
		block := hclwrite.NewBlock(f.hcl, labels)
		w.body(block.Body(), f.sub, child, base)
		if f.embedded && len(block.Body().Attributes()) == 0 {
			continue
		}
		if len(body.Attributes()) > 0 || len(body.Blocks()) > 0 {
			body.AppendNewline()
		}
		body.AppendBlock(block)
	}
}

// inline is an object of counts as a value.
func inline(s *schema, target any) cty.Value {
	values := map[string]cty.Value{}
	for i := range s.fields {
		f := &s.fields[i]
		values[f.hcl] = f.write(valueOf(f, target))
	}
	return cty.ObjectVal(values)
}

// write is the value of a field as HCL writes it.
func (f *field) write(value any) cty.Value {
	v := reflect.ValueOf(value)
	if id, ok := value.(*[32]byte); ok {
		return cty.StringVal(hex.EncodeToString(id[:]))
	}
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	switch f.kind {
	case text, enum:
		return cty.StringVal(v.String())
	case flag:
		return cty.BoolVal(v.Bool())
	case millis, seconds:
		return cty.StringVal(timeText(time.Duration(v.Int())))
	case size:
		return cty.StringVal(sizeText(uint64(v.Int())))
	case enums, texts:
		var items []cty.Value
		for i := range v.Len() {
			items = append(items, cty.StringVal(v.Index(i).String()))
		}
		return cty.TupleVal(items)
	}
	if f.kind == labels {
		values := map[string]cty.Value{}
		for name, label := range value.(map[string]string) {
			values[name] = cty.StringVal(label)
		}
		return cty.ObjectVal(values)
	}
	if v.CanUint() {
		return cty.NumberUIntVal(v.Uint())
	}
	return cty.NumberIntVal(v.Int())
}

func comment(body *hclwrite.Body, text string) {
	body.AppendUnstructuredTokens(hclwrite.Tokens{{Type: hclsyntax.TokenComment, Bytes: []byte(text + "\n")}})
}
