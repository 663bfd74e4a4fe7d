package config

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentationHasEveryEVMField compares docs/evm.md with the schema.
func TestDocumentationHasEveryEVMField(t *testing.T) {
	page, err := os.ReadFile("../../docs/evm.md")
	if err != nil {
		t.Fatal(err)
	}
	section := func(heading string) string {
		_, rest, ok := strings.Cut(string(page), "\n### `"+heading)
		if !ok {
			t.Fatalf("there is no section %s", heading)
		}
		text, _, _ := strings.Cut(rest, "\n#")
		return text
	}
	for heading, s := range map[string]*schema{`listener "evm"`: evmSchema, `server "`: evmServerSchema, "health": evmHealthSchema, "reference": evmReferenceSchema,
		"websocket": evmWebSocketSchema, "limits": evmLimitsSchema, "management": evmManagementSchema} {
		text := section(heading)
		for i := range s.fields {
			f := &s.fields[i]
			if f.hcl == "name" || f.hcl == "protocol" || f.hcl == "policy" || f.sub != nil && f.hcl != "tls" {
				continue
			}
			want := "\n| `" + f.hcl + "` | " + f.def
			if f.required == inHCL {
				want = "\n| `" + f.hcl + "` | required |"
			}
			if !strings.Contains(text, want) {
				t.Errorf("%s: no row begins with %q", heading, want)
			}
		}
	}
}
