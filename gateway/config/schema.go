package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/agext/levenshtein"
)

// language is one of the two that configurations are written in.
type language int

const (
	inHCL language = 1 << iota
	inJSON
	inBoth = inHCL | inJSON
)

// kind is what a field holds and how it is written.
type kind int

const (
	// text is a string.
	text kind = iota
	// enum is a string out of field.values.
	enum
	// enums is a list of different strings out of field.values, at least one.
	enums
	// texts is a list of strings.
	texts
	// flag is true or false.
	flag
	// count is a whole number.
	count
	// millis is a time: "5s" in HCL, whole milliseconds in JSON.
	millis
	// seconds is a time: "5s" in HCL, whole seconds in JSON.
	seconds
	// size is a number of bytes: "64KiB" in HCL, a whole number in JSON.
	size
	// chain is a chain id, 64 hex digits.
	chain
	// labels are texts by name.
	labels
	// object holds the fields of field.sub.
	object
	// objects is any number of those: blocks in HCL, a list in JSON.
	objects
	// opaque blocks have settings that somebody else declares: a policy, say.
	opaque
)

// field declares one setting for both languages.
type field struct {
	// hcl and json are its names; it does not exist where its name is empty.
	hcl, json string
	// alias is another name in JSON. foreign are names that people coming
	// from fleet-router may write in HCL.
	alias   string
	foreign []string
	kind    kind
	// min and max bound a count, a size in bytes, or a time in milliseconds;
	// a max of 0 is what the kind can hold. zero allows 0 beside them. With
	// clamp a JSON value above max counts as max.
	min, max    uint64
	zero, clamp bool
	values      []string
	// filled refuses blank texts; trim removes the white space around them.
	filled, trim bool
	// def is the default, as HCL writes it, and jsonDef where it is another
	// one in JSON.
	def, jsonDef string
	required     language
	// nullable allows null in JSON, which is as if the field were missing.
	nullable bool
	// at is where the value is kept: a pointer into the target.
	at func(target any) any

	// What follows is for objects. sub are their fields.
	sub *schema
	// labels are the fields that an HCL block takes from its labels; example
	// shows how such a block is written.
	labels  []string
	example string
	// open makes a new object in its parent, or returns the one that a parent
	// always has when embedded is true.
	open     func(parent any) any
	embedded bool
	// inherit runs on a new object after its defaults are set.
	inherit func(parent, child any)
	// children are the objects that a parent has, for FormatHCL.
	children func(parent any) []any
	// decode takes in an opaque block, and blocks are those that a parent has,
	// for FormatHCL.
	decode func(d *decoder, n *node, parent any)
	blocks func(parent any) []rawBlock
	// variant is another field that decodes a block, or writes an object, of the
	// same name; nil when this one does.
	variant func(of any) *field
	// inline writes the object as an attribute, name = { ... }.
	inline bool
}

// schema is the fields of one kind of object.
type schema struct {
	// noun names one object out of several in messages: server "a".
	noun   string
	fields []field
	// fresh is a new object with nothing set, for FormatHCL.
	fresh func() any
	// accept may refuse an object before it is decoded.
	accept func(d *decoder, n *node, prefix string) bool
	// check looks at an object after all its fields were decoded.
	check func(d *decoder, target any)
}

func (f *field) name(lang language) string {
	if lang == inHCL {
		return f.hcl
	}
	return f.json
}

// key names the field in calls of decoder.problem, whatever the language.
func (f *field) key() string {
	if f.hcl != "" {
		return f.hcl
	}
	return f.json
}

// at binds a field to its place in a T.
func at[T, F any](get func(*T) *F) func(any) any {
	return func(target any) any { return get(target.(*T)) }
}

// lift binds fields of an object to a larger one that holds it.
func lift(fields []field, part func(any) any) []field {
	out := slices.Clone(fields)
	for i := range out {
		f := fields[i]
		if f.at != nil {
			out[i].at = func(target any) any { return f.at(part(target)) }
		}
		if f.open != nil {
			out[i].open = func(parent any) any { return f.open(part(parent)) }
		}
		if f.inherit != nil {
			out[i].inherit = func(parent, child any) { f.inherit(part(parent), child) }
		}
		if f.children != nil {
			out[i].children = func(parent any) []any { return f.children(part(parent)) }
		}
	}
	return out
}

func (s *schema) find(lang language, name string) *field {
	for i := range s.fields {
		f := &s.fields[i]
		if own := f.name(lang); own != "" && (own == name || lang == inJSON && f.alias == name) {
			return f
		}
	}
	return nil
}

func (s *schema) byKey(key string) *field {
	for i := range s.fields {
		if s.fields[i].key() == key {
			return &s.fields[i]
		}
	}
	return nil
}

// nearest is the name of a field that may have been meant, or "".
func (s *schema) nearest(lang language, name string) string {
	const close = 3
	best, distance := "", close+1
	for i := range s.fields {
		f := &s.fields[i]
		own := f.name(lang)
		if own == "" || slices.Contains(f.labels, own) {
			continue
		}
		if lang == inHCL && (f.json == name || slices.Contains(f.foreign, name)) {
			return own
		}
		if d := levenshtein.Distance(strings.ToLower(name), own, nil); d < distance && d < len(own) {
			best, distance = own, d
		}
	}
	return best
}

// setDefaults sets every field that has a default, in embedded objects too.
func (s *schema) setDefaults(target any, lang language) {
	for i := range s.fields {
		f := &s.fields[i]
		switch {
		case f.embedded:
			f.sub.setDefaults(f.open(target), lang)
		case f.at != nil:
			if v := f.defaultValue(lang); v != nil {
				assign(f.at(target), v)
			}
		}
	}
}

func (f *field) defaultValue(lang language) any {
	written := f.def
	if lang == inJSON && f.jsonDef != "" {
		written = f.jsonDef
	}
	if written == "" {
		return nil
	}
	n := &node{kind: textNode, text: written}
	switch f.kind {
	case count:
		n.kind = numberNode
	case flag:
		n.kind, n.flag = flagNode, written == "true"
	case enums:
		n.kind = listNode
		for word := range strings.FieldsSeq(written) {
			n.items = append(n.items, &node{kind: textNode, text: word})
		}
	}
	v, wrong := f.parse(inHCL, n)
	if wrong != nil {
		panic("the default of " + f.key() + " " + wrong.message)
	}
	return v
}

// assign stores a parsed value at the place of its field.
func assign(place, value any) {
	to := reflect.ValueOf(place).Elem()
	from := reflect.ValueOf(value)
	if to.Kind() == reflect.Pointer && from.Kind() != reflect.Pointer {
		to.Set(reflect.New(to.Type().Elem()))
		to = to.Elem()
	}
	to.Set(from.Convert(to.Type()))
}

// copyField copies the value of one field between two targets.
func copyField(f *field, to, from any) {
	reflect.ValueOf(f.at(to)).Elem().Set(reflect.ValueOf(f.at(from)).Elem())
}
