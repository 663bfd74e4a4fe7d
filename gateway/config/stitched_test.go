package config

import (
	"fmt"
	"strings"
	"testing"
)

// archiveWith is an HCL server z with more attributes, each on a line.
func archiveWith(lines ...string) string {
	return "  server \"z\" {\n    " + strings.Join(append([]string{`endpoint = "h:1"`}, lines...), "\n    ") + "\n  }"
}

func block(name string, lines ...string) string {
	return "  " + name + " {\n    " + strings.Join(lines, "\n    ") + "\n  }"
}

// TestStitchedRulesInHCL are the rules about roles, ranges, topology and
// stitching; jsonRules has the same ones for fleet-router files.
func TestStitchedRulesInHCL(t *testing.T) {
	const frozen, someRange = `role = "frozen"`, `range = { begin = 1, end = 5 }`
	for _, r := range []rule{
		{"unknown role", archiveWith(`role = «"cold"`), words(`server "z": role`, `"live"`, `"frozen"`)},
		{"role in another case", archiveWith(`role = «"Frozen"`), words(`server "z": role`, `"frozen"`)},
		{"number for a role", archiveWith(`role = «1`), words(`server "z": role`)},
		{"range on live", archiveWith(`range = «{ begin = 1, end = 5 }`), words(`server "z": range`, "live", "frozen")},
		{"range of a disabled live one", archiveWith(`enabled = false`, `range = «{ begin = 1, end = 5 }`), words(`server "z": range`, "live")},
		{"range from 0", archiveWith(frozen, `range = «{ begin = 0, end = 5 }`), words(`server "z": range`, "begin 0", "at least 1")},
		{"empty range", archiveWith(frozen, `range = «{ begin = 5, end = 5 }`), words(`server "z": range`, "begin 5 and end 5")},
		{"range that goes back", archiveWith(frozen, `range = «{ begin = 6, end = 5 }`), words(`server "z": range`, "begin 6 and end 5")},
		{"bad range of a disabled archive", archiveWith(frozen, `enabled = false`, `range = «{ begin = 5, end = 5 }`), words(`server "z": range`)},
		{"range without an end", archiveWith(frozen, `range = «{ begin = 5 }`), words(`server "z": range.end`, "missing")},
		{"range without a begin", archiveWith(frozen, `range = «{ end = 5 }`), words(`server "z": range.begin`, "missing")},
		{"range above 32 bits", archiveWith(frozen, `range = { begin = 1, end = «4294967296 }`), words(`server "z": range.end`, "4294967296")},
		{"fraction in a range", archiveWith(frozen, `range = { begin = «1.5, end = 5 }`), words(`server "z": range.begin`, "1.5")},
		{"list for a range", archiveWith(frozen, `range = «[1, 5]`), words(`server "z": range`)},
		{"unknown name in a range", archiveWith(frozen, `range = { begin = 1, end = 5, «last = 4 }`), words(`server "z": range.last`)},
		{"frozen without an endpoint", "  «server \"z\" {\n    role = \"frozen\"\n    api_endpoint = \"h:2\"\n    range = { begin = 1, end = 5 }\n  }" + block("\n  chain_api", `address = "127.0.0.1:18888"`), words(`server "z": endpoint`, "frozen")},
		{"max_sessions 0", archiveWith(`max_sessions = «0`), words(`server "z": max_sessions`, "from 1 up")},
		{"max_sessions above 32 bits", archiveWith(`max_sessions = «4294967296`), words(`server "z": max_sessions`)},

		{"unknown topology", `  topology = «"split"`, words("topology", `"auto"`, `"pool"`, `"stitched"`)},
		{"frozen in a pool", "  topology = \"pool\"\n" + archiveWith(`role = «"frozen"`, someRange), words(`server "z": role`, "pool", "stitched", "auto")},
		{"gap_wait 0", "  topology = \"stitched\"\n" + block("stitching", `gap_wait = «"0s"`), words("stitching.gap_wait", "1ms to 1h")},
		{"gap_wait too long", "  topology = \"stitched\"\n" + block("stitching", `gap_wait = «"3600001ms"`), words("stitching.gap_wait", "1ms to 1h")},
		{"predial_blocks above 32 bits", "  topology = \"stitched\"\n" + block("stitching", `predial_blocks = «4294967296`), words("stitching.predial_blocks")},
		{"patch_head_lib", "  topology = \"stitched\"\n" + block("stitching", `patch_head_lib = «"yes"`), words("stitching.patch_head_lib", "true or false")},
		{"no abi_file", "  topology = \"stitched\"\n" + block("stitching", `abi_file = «"/nonexistent/abi"`), words("stitching.abi_file", "/nonexistent/abi", "no such file")},
		{"abi_file is no ABI", "  topology = \"stitched\"\n" + block("stitching", `abi_file = «"rules_test.go"`), words("stitching.abi_file", "rules_test.go", "ABI")},
		{"abi_file of a pool is checked as well", block("stitching", `abi_file = «"rules_test.go"`), words("stitching.abi_file", "ABI")},
		{"unknown abi_mismatch", "  topology = \"stitched\"\n" + block("stitching", `abi_mismatch = «"no"`), words("stitching.abi_mismatch", `"warn"`, `"exclude"`)},
		{"unknown history_preference", "  topology = \"stitched\"\n" + block("stitching", `history_preference = «"live"`), words("stitching.history_preference", `"any"`, `"frozen"`)},
		{"unknown name in stitching", "  topology = \"stitched\"\n" + block("stitching", `«gap_wait_ms = 5`), words("stitching.gap_wait_ms", "did you mean gap_wait?")},
	} {
		t.Run(r.name, func(t *testing.T) { expectProblem(t, "flotilla.hcl", hclWith("", r.text), r.words...) })
	}
}

// TestStitchedWarningsInHCL: what is valid, and still not as it should be.
func TestStitchedWarningsInHCL(t *testing.T) {
	archive := func(name string, begin, end int) string {
		return fmt.Sprintf("  server %q {\n    endpoint = \"%s:1\"\n    role = \"frozen\"\n    range = { begin = %d, end = %d }\n  }\n", name, name, begin, end)
	}
	listener := func(mark, body string) string {
		return mark + "listener \"ship\" \"eos\" {\n  address  = \"127.0.0.1:17000\"\n  chain_id = \"" + someChain + "\"\n" + body + "\n}\n"
	}
	const live = "  server \"l\" { endpoint = \"l:1\" }\n"
	for _, r := range []rule{
		{"stitching without effect", listener("", live+"  «stitching {}"), words("stitching", "pool")},
		{"an archive without a range", listener("", live+"  «server \"z\" {\n    endpoint = \"z:1\"\n    role = \"frozen\"\n  }"), words(`server "z": range`, "status requests wait")},
	} {
		t.Run(r.name, func(t *testing.T) { expectWarning(t, "flotilla.hcl", r.text, r.words...) })
	}
	for name, c := range map[string]struct {
		body string
		want []string // parts of the warnings, in their order
	}{
		"complete":                   {live + archive("y", 1, 51) + archive("z", 51, 101), nil},
		"they overlap":               {live + archive("y", 1, 61) + archive("z", 51, 101), nil},
		"in another order":           {live + archive("z", 51, 101) + archive("y", 1, 51), nil},
		"one inside another":         {live + archive("y", 1, 101) + archive("z", 51, 61) + archive("x", 101, 111), nil},
		"replicas":                   {live + archive("y1", 1, 51) + archive("y2", 1, 51) + archive("z", 51, 101), nil},
		"a hole":                     {live + archive("y", 1, 41) + archive("z", 51, 101), []string{"[41, 51)"}},
		"two holes":                  {live + archive("y", 1, 11) + archive("z", 51, 101) + archive("x", 21, 31), []string{"[11, 21)", "[31, 51)"}},
		"nothing live":               {archive("y", 1, 51), []string{"no live entry"}},
		"the live one is disabled":   {"  server \"l\" {\n    endpoint = \"l:1\"\n    enabled = false\n  }\n" + archive("y", 1, 51), []string{"no live entry"}},
		"a disabled archive is none": {live + archive("y", 1, 51) + strings.Replace(archive("z", 61, 101), "role", "enabled = false\n    role", 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, warnings, err := Parse("flotilla.hcl", []byte(listener("", c.body)))
			if err != nil {
				t.Fatal(err)
			}
			if len(warnings) != len(c.want) {
				t.Fatalf("the warnings are %v", warnings)
			}
			for i, part := range c.want {
				if !strings.Contains(warnings[i].Message, part) {
					t.Errorf("warning %d lacks %q: %s", i, part, warnings[i].Message)
				}
			}
		})
	}
}

// TestTopology is how it resolves, in both languages: auto is stitched when an
// enabled server is frozen.
func TestTopology(t *testing.T) {
	for _, c := range []struct {
		topology string // as written, "" is left out
		role     string // of the second server
		enabled  bool
		stitched bool
	}{
		{"", "live", true, false},
		{"", "frozen", true, true},
		{"", "frozen", false, false},
		{"auto", "live", true, false},
		{"auto", "frozen", true, true},
		{"auto", "frozen", false, false},
		{"stitched", "live", true, true},
		{"stitched", "frozen", true, true},
		{"stitched", "frozen", false, true},
		{"pool", "live", true, false},
		{"pool", "frozen", false, false},
	} {
		more := ""
		if c.role == "frozen" {
			more = `, "range": {"begin": 2, "end": 5}`
		}
		changes := []string{fmt.Sprintf(`"servers": [%s, {"name": "b", "endpoint": "h:1", "enabled": %v, "role": %q%s}]`, oneServer, c.enabled, c.role, more)}
		hcl := archiveWith(fmt.Sprintf("enabled = %v", c.enabled), fmt.Sprintf("role = %q", c.role))
		if c.role == "frozen" {
			hcl = archiveWith(fmt.Sprintf("enabled = %v", c.enabled), `role = "frozen"`, "range = { begin = 2, end = 5 }")
		}
		if c.topology != "" {
			changes = append(changes, fmt.Sprintf(`"topology": %q`, c.topology))
			hcl += fmt.Sprintf("\n  topology = %q", c.topology)
		}
		for file, text := range map[string]string{"config.json": jsonWith(changes...), "flotilla.hcl": hclWith("", hcl)} {
			cfg, warnings, err := Parse(file, []byte(text))
			if err != nil || len(warnings) > 0 {
				t.Errorf("%s: %v %v in\n%s", file, err, warnings, text)
				continue
			}
			l := cfg.Listeners[0]
			if got := l.Stitched(); got != c.stitched {
				t.Errorf("%s: %+v resolves to stitched: %v", file, c, got)
			}
			second := l.Servers[1]
			if string(second.Role) != c.role || (second.Range != nil) != (c.role == "frozen") || second.Range != nil && *second.Range != (Range{2, 5}) {
				t.Errorf("%s: the server is %+v with the range %v", file, second, second.Range)
			}
		}
	}
}

// TestStitchedNeedsAChain in both languages, and says for what reason.
func TestStitchedNeedsAChain(t *testing.T) {
	bare := func(mark, body string) string {
		return mark + "listener \"ship\" \"eos\" {\n  address = \"127.0.0.1:17000\"\n  server \"a\" { endpoint = \"a:1\" }\n" + body + "\n}\n"
	}
	expectProblem(t, "flotilla.hcl", bare("«", `  topology = "stitched"`), "chain_id", `topology is "stitched"`)
	expectProblem(t, "flotilla.hcl", bare("«", archiveWith(`role = "frozen"`, "range = { begin = 1, end = 5 }")), "chain_id", "a server is frozen")
	expectProblem(t, "config.json", "«"+jsonWith(`"chain_id": null`, `"topology": "stitched"`), "chain_id", `topology is "stitched"`)
	expectProblem(t, "config.json", many(`[«{"name": "x", "listen_port": 17000, "topology": "stitched", "servers": [`+oneServer+`]}]`), `listener "x": chain_id`)
}

// TestStitchingValues are read as they are written, in both languages.
func TestStitchingValues(t *testing.T) {
	hcl := hclWith("", "  topology = \"stitched\"\n"+block("stitching", `history_preference = "any"`, "predial_blocks = 0", `gap_wait = "1h"`, "patch_head_lib = false", `abi_mismatch = "exclude"`)+
		"\n"+archiveWith("max_sessions = 32", "priority = 4294967295"))
	json := jsonWith(`"topology": "stitched"`, `"stitching": {"history_preference": "any", "predial_blocks": 0, "gap_wait_ms": 3600000, "patch_head_lib": false, "abi_file": null, "abi_mismatch": "exclude"}`,
		`"servers": [`+oneServer+`, `+server(`, "max_sessions": 32, "priority": 4294967295, "range": null`)+`]`)
	for file, text := range map[string]string{"flotilla.hcl": hcl, "config.json": json} {
		cfg, warnings, err := Parse(file, []byte(text))
		if err != nil || len(warnings) > 0 {
			t.Errorf("%s: %v %v", file, err, warnings)
			continue
		}
		l := cfg.Listeners[0]
		want := Stitching{HistoryPreference: "any", GapWait: 3600 * 1e9, ABIMismatch: "exclude"}
		if l.Stitching != want || l.Servers[1].MaxSessions != 32 || l.Servers[1].Priority != 4294967295 || l.Servers[1].Range != nil {
			t.Errorf("%s: %+v, %+v", file, l.Stitching, l.Servers[1])
		}
	}
}
