package config

import (
	"reflect"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/gohcl"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// raw is the inside of an opaque block: gohcl decodes it into the struct that
// declares its settings.
type raw struct {
	body   hcl.Body
	reader *hclReader
	src    *source
}

// decode fills target, a pointer to a struct with hcl tags, from body, which is
// that of the block or what is left of it. It reports false after complaints.
func (r *raw) decode(body any, target any) bool {
	diags := gohcl.DecodeBody(body.(hcl.Body), r.reader.context, target)
	failed := diags.HasErrors()
	// A value that cannot be computed is complained about twice: that it is not
	// known says nothing new.
	diags = slices.DeleteFunc(diags, func(d *hcl.Diagnostic) bool {
		return strings.Contains(d.Detail, "value must be known") && len(diags) > 1
	})
	r.reader.complain(diags, r.src)
	return !failed
}

// rawBlock is an opaque block to be written.
type rawBlock struct {
	name     string
	settings any
	// after and before are those of a stage.
	after, before string
}

// write adds the block to a body.
func (b *rawBlock) write(kind string, to *hclwrite.Body) {
	block := to.AppendNewBlock(kind, []string{b.name})
	gohcl.EncodeIntoBody(b.settings, block.Body())
	for name, value := range map[string]string{"after": b.after, "before": b.before} {
		if value != "" {
			block.Body().SetAttributeValue(name, cty.StringVal(value))
		}
	}
}

// withSettings gives target, a pointer to a struct, the exported fields of
// settings, which is one of the same type.
func withSettings[T any](target, settings T) T {
	to, from := reflect.ValueOf(target).Elem(), reflect.ValueOf(settings).Elem()
	for i := range to.NumField() {
		if to.Type().Field(i).IsExported() {
			to.Field(i).Set(from.Field(i))
		}
	}
	return target
}
