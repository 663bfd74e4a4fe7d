package config

import (
	"fmt"
	"slices"
	"strings"
)

// decoder fills objects from nodes, and remembers where each field stood so
// that later checks can point at it.
type decoder struct {
	*report
	lang    language
	records map[any]*record
}

// record is what is known about a decoded object.
type record struct {
	schema *schema
	at     place
	// prefix begins each message about a field: `server "a": `.
	prefix string
	// members are the values given, by the key of their field; an HCL field of
	// several blocks has them all.
	members map[string][]*node
}

// object fills target, whose defaults are set, with the members of n.
func (d *decoder) object(s *schema, n *node, target any, prefix string) {
	rec := &record{schema: s, at: n.at, prefix: prefix, members: map[string][]*node{}}
	d.records[target] = rec
	for i := range n.members {
		d.sort(rec, &n.members[i])
	}
	for i := range s.fields {
		f := &s.fields[i]
		name := f.name(d.lang)
		if name == "" {
			continue
		}
		values := rec.members[f.key()]
		if len(values) == 0 {
			if f.required&d.lang != 0 {
				d.report.problem(n.at, prefix+name+" is missing", f.expected(d.lang)+" is expected")
			}
			continue
		}
		for _, value := range values {
			d.field(f, value, target, prefix)
		}
	}
	if s.check != nil {
		s.check(d, target)
	}
}

// sort files a member under its field, and complains about one that is unknown
// or given twice.
func (d *decoder) sort(rec *record, m *member) {
	f := rec.schema.find(d.lang, m.name)
	if f == nil {
		d.unknown(rec, m)
		return
	}
	key := f.key()
	repeats := d.lang == inHCL && (f.kind == objects || f.kind == opaque)
	if first := rec.members[key]; len(first) > 0 && !repeats {
		d.report.problem(m.at, fmt.Sprintf("%s%s is given twice", rec.prefix, shorten(m.name)),
			fmt.Sprintf("the other one is in line %d", first[0].at.line))
		return
	}
	if m.value.kind == nullNode && (f.nullable || d.lang == inHCL) {
		return
	}
	rec.members[key] = append(rec.members[key], m.value)
}

func (d *decoder) unknown(rec *record, m *member) {
	hint := ""
	if near := rec.schema.nearest(d.lang, m.name); near != "" {
		hint = fmt.Sprintf("did you mean %s?", near)
	}
	name := rec.prefix + shorten(m.name)
	if d.lang == inJSON {
		d.report.warn(m.at, name+" is not a known field; it has no effect", hint)
		return
	}
	what := "attribute"
	if m.value.block {
		what = "block"
	}
	d.report.problem(m.at, fmt.Sprintf("%s is not a known %s", name, what), hint)
}

func (d *decoder) field(f *field, value *node, target any, prefix string) {
	name := prefix + f.name(d.lang)
	if value.kind == brokenNode {
		return
	}
	switch f.kind {
	case opaque:
		if !value.block {
			d.mismatch(name, value, f.wrong(d.lang, value))
			return
		}
		f.decode(d, value, target)
	case object:
		if value.kind != objectNode {
			d.mismatch(name, value, f.wrong(d.lang, value))
			return
		}
		d.child(f, value, target, name+".")
	case objects:
		d.list(f, value, target, prefix)
	default:
		parsed, wrong := f.parse(d.lang, value)
		if wrong != nil {
			d.mismatch(name, value, wrong)
			return
		}
		if f.at != nil {
			assign(f.at(target), parsed)
		}
	}
}

// mismatch complains about a value, which counts as broken from then on.
func (d *decoder) mismatch(name string, value *node, wrong *mismatch) {
	d.report.problem(value.at, name+" "+wrong.message, wrong.hint)
	value.kind = brokenNode
}

// list decodes one HCL block, or all objects of a JSON list.
func (d *decoder) list(f *field, value *node, target any, prefix string) {
	if d.lang == inHCL {
		if !value.block {
			d.mismatch(prefix+f.hcl, value, f.wrong(inHCL, value))
			return
		}
		d.block(f, value, target, prefix)
		return
	}
	if value.kind != listNode {
		d.mismatch(prefix+f.json, value, f.wrong(inJSON, value))
		return
	}
	for i, item := range value.items {
		place := fmt.Sprintf("%s%s[%d]", prefix, f.json, i)
		if item.kind != objectNode {
			d.mismatch(place, item, &mismatch{"is " + item.describe(), "an object is expected"})
			continue
		}
		d.child(f, item, target, d.itemPrefix(f, item, prefix, place))
	}
}

// itemPrefix names one object out of several: by its name where it has one,
// else by its place in the list.
func (d *decoder) itemPrefix(f *field, item *node, prefix, place string) string {
	if f.sub.noun == "" {
		return place + "."
	}
	if name := item.member("name"); name != nil && name.kind == textNode && strings.TrimSpace(name.text) != "" {
		return fmt.Sprintf("%s%s %s: ", prefix, f.sub.noun, quote(strings.TrimSpace(name.text)))
	}
	return place + ": "
}

// block decodes an HCL block. Its labels become fields.
func (d *decoder) block(f *field, value *node, target any, prefix string) {
	if len(value.labels) != len(f.labels) {
		d.report.problem(value.at, fmt.Sprintf("%s%s has %s", prefix, f.hcl, plural(len(value.labels), "label")),
			fmt.Sprintf("%s is expected", f.example))
		return
	}
	item := *value
	item.members = nil
	for i, label := range value.labels {
		item.members = append(item.members, member{f.labels[i], label.at, label})
	}
	item.members = append(item.members, value.members...)
	d.child(f, &item, target, d.itemPrefix(f, &item, prefix, prefix+f.hcl))
}

func (d *decoder) child(f *field, n *node, parent any, prefix string) {
	if f.variant != nil {
		if other := f.variant(n); other != nil {
			f = other
		}
	}
	if f.sub.accept != nil && !f.sub.accept(d, n, prefix) {
		return
	}
	child := f.open(parent)
	f.sub.setDefaults(child, d.lang)
	if f.inherit != nil {
		f.inherit(parent, child)
	}
	d.object(f.sub, n, child, prefix)
}

// given reports whether a field of target has a value in the file.
func (d *decoder) given(target any, key string) bool {
	rec := d.records[target]
	return rec != nil && len(rec.members[key]) > 0
}

// broken reports whether a field was given a value that has been complained
// about, so that nothing follows from what target holds.
func (d *decoder) broken(target any, key string) bool {
	rec := d.records[target]
	return rec != nil && slices.ContainsFunc(rec.members[key], func(n *node) bool { return n.kind == brokenNode })
}

// locate is where a field of target stands, or target itself when the file
// does not give the field, and what names the field in a message.
func (d *decoder) locate(target any, key string) (place, string) {
	rec := d.records[target]
	name := strings.TrimSuffix(strings.TrimSuffix(rec.prefix, ": "), ".")
	if key != "" {
		name = key
		if f := rec.schema.byKey(key); f != nil && f.name(d.lang) != "" {
			name = f.name(d.lang)
		}
		name = rec.prefix + name
	}
	if values := rec.members[key]; len(values) > 0 {
		return values[0].at, name
	}
	return rec.at, name
}

// complain is about a field of target, or about target itself when key is "".
// The message goes on after the name.
func (d *decoder) complain(target any, key, message, hint string) {
	at, name := d.locate(target, key)
	d.report.problem(at, strings.TrimSpace(name+" "+message), hint)
}

// advise is complain for a warning.
func (d *decoder) advise(target any, key, message, hint string) {
	at, name := d.locate(target, key)
	d.report.warn(at, strings.TrimSpace(name+" "+message), hint)
}

// strict is a problem in HCL, and a warning in files of fleet-router, which
// accepts this.
func (d *decoder) strict(target any, key, message, hint string) {
	if d.lang == inHCL {
		d.complain(target, key, message, hint)
		return
	}
	d.advise(target, key, message, hint)
}
