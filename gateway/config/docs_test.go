package config

import (
	"os"
	"strings"
	"testing"
)

// TestDocumentationHasEveryField compares docs/configuration.md with the
// schema: each field needs a row with its names and its default.
func TestDocumentationHasEveryField(t *testing.T) {
	page, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| ") {
			rows = append(rows, line)
		}
	}
	documented := func(f *field) bool {
		for _, row := range rows {
			cells := strings.Split(row, "|")
			if len(cells) < 6 {
				continue
			}
			inHCL := f.hcl == "" || strings.Contains(cells[1], "`"+f.hcl+"`") || strings.Contains(cells[1], "(label)")
			inJSON := f.json == "" || strings.Contains(cells[2], "`"+f.json+"`")
			if inHCL && inJSON && strings.Contains(cells[3], f.def) {
				return true
			}
		}
		return false
	}
	for _, s := range []*schema{hclRoot, jsonRoot, listenerSchema, serverSchema, rangeSchema, tlsSchema, sniSchema, apiSchema, corsSchema, adminSchema, dashboardSchema, quarantineSchema, stitchingSchema} {
		for i := range s.fields {
			f := &s.fields[i]
			switch f.key() {
			case "protocol", "policy", "stage", "listener", "admin", "defaults", "dashboard":
				// These have a heading of their own.
				if f.kind != text && !strings.Contains(string(page), "`"+f.key()) {
					t.Errorf("%s is not documented", f.key())
				}
			default:
				if !documented(f) {
					t.Errorf("no row has %s, %s and the default %q", f.hcl, f.json, f.def)
				}
			}
		}
	}
}
