package ship

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const (
	springABI = `{"version":"eosio::abi/1.1","structs":[{"name":"block_position","fields":[]}],"variants":[` +
		`{"name":"request","types":["get_status_request_v0","get_blocks_request_v0","get_blocks_ack_request_v0","get_blocks_request_v1","get_status_request_v1"]},` +
		`{"name":"result","types":["get_status_result_v0","get_blocks_result_v0","get_blocks_result_v1","get_status_result_v1"]}]}`
	oldABI = `{"version":"eosio::abi/1.1","variants":[` +
		`{"name":"request","types":["get_status_request_v0","get_blocks_request_v0","get_blocks_ack_request_v0"]},` +
		`{"name":"result","types":["get_status_result_v0","get_blocks_result_v0"]}]}`
)

func TestParseABI(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       string // part of the error; "" is none
	}{
		{"spring", springABI, ""},
		{"white space around", "\n\t " + springABI + "\r\n", ""},
		{"only a version", `{"version":"eosio::abi/1.0"}`, ""},
		{"1.2", `{"version":"eosio::abi/1.2"}`, ""},
		{"2.0", `{"version":"eosio::abi/2.0"}`, ""},
		{"Wire Network", `{"version":"sysio::abi/1.1"}`, ""},
		{"unknown fields", `{"version":"eosio::abi/1.1","else":[1,{"a":null}]}`, ""},
		{"no variants", `{"version":"eosio::abi/1.1","variants":[]}`, ""},
		{"variants is null", `{"version":"eosio::abi/1.1","variants":null}`, ""},
		{"3.0", `{"version":"eosio::abi/3.0"}`, "version"},
		{"10", `{"version":"eosio::abi/10.0"}`, "version"},
		{"no dot", `{"version":"eosio::abi/1"}`, "version"},
		{"another Wire version", `{"version":"sysio::abi/2.0"}`, "version"},
		{"a space before", `{"version":" eosio::abi/1.1"}`, "version"},
		{"another name", `{"version":"antelope::abi/1.1"}`, "version"},
		{"no version", `{}`, "version"},
		{"null", `null`, "version"},
		{"version is no text", `{"version":1.1}`, "JSON"},
		{"an array", `[]`, "JSON"},
		{"variants is no list", `{"version":"eosio::abi/1.1","variants":{}}`, "JSON"},
		{"types is no list", `{"version":"eosio::abi/1.1","variants":[{"name":"request","types":"x"}]}`, "JSON"},
		{"empty", ``, "JSON"},
		{"cut short", springABI[:len(springABI)-1], "JSON"},
		{"something behind", springABI + "}", "JSON"},
		{"two values", springABI + springABI, "JSON"},
		{"no JSON", "eosio::abi/1.1", "JSON"},
		{"NUL behind", springABI + "\x00", "NUL"},
		{"NUL inside", strings.Replace(springABI, "block_position", "block\x00position", 1), "NUL"},
		{"no UTF-8", strings.Replace(springABI, "block_position", "block\xffposition", 1), "UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := []byte(c.text)
			a, err := ParseABI(text)
			switch {
			case c.want == "" && err != nil:
				t.Fatal(err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Fatalf("got %v, want an error about %s", err, c.want)
			case c.want == "" && (string(a.Text) != c.text || a.Fingerprint != Fingerprint(text)):
				t.Errorf("got text %q and fingerprint %s", a.Text, a.Fingerprint)
			}
		})
	}
}

func TestCompatible(t *testing.T) {
	abi := func(requests, results []string) *ABI { return &ABI{Requests: requests, Results: results} }
	swapped := slices.Clone(requestTypes)
	swapped[3], swapped[4] = swapped[4], swapped[3]
	for _, c := range []struct {
		name string
		abi  *ABI
		want bool
	}{
		{"spring", abi(requestTypes, resultTypes), true},
		{"EOSIO 2.0", abi(requestTypes[:3], resultTypes[:2]), true},
		{"one of each", abi(requestTypes[:1], resultTypes[:1]), true},
		{"no requests", abi(nil, resultTypes), false},
		{"no results", abi(requestTypes, nil), false},
		{"one request more", abi(append(slices.Clone(requestTypes), "x"), resultTypes), false},
		{"another order", abi(swapped, resultTypes), false},
		{"a result that does not begin the list", abi(requestTypes, resultTypes[1:]), false},
		{"EOSIO 2.1", abi(requestTypes, []string{"get_status_result_v0", "get_blocks_result_v0", "get_blocks_result_v2"}), false},
	} {
		if got := c.abi.Compatible(); got != c.want {
			t.Errorf("%s: got %v", c.name, got)
		}
	}
}

func TestKnows(t *testing.T) {
	spring, err := ParseABI([]byte(springABI))
	if err != nil {
		t.Fatal(err)
	}
	old, err := ParseABI([]byte(oldABI))
	if err != nil {
		t.Fatal(err)
	}
	if !spring.Compatible() || !old.Compatible() {
		t.Errorf("compatible: spring %v, old %v", spring.Compatible(), old.Compatible())
	}
	if !spring.Knows("get_status_request_v1") || old.Knows("get_status_request_v1") || !old.Knows("get_status_request_v0") {
		t.Errorf("get_status_request_v1: spring %v, old %v", spring.Knows("get_status_request_v1"), old.Knows("get_status_request_v1"))
	}
	if spring.Knows("") || (&ABI{}).Knows("get_status_request_v0") {
		t.Error("a node knows what is not in its ABI")
	}
}

// fnv1a is the hash of A3, by its definition.
func fnv1a(text string) string {
	hash := uint64(0xcbf29ce484222325)
	for _, b := range []byte(text) {
		hash = (hash ^ uint64(b)) * 0x100000001b3
	}
	return fmt.Sprintf("%016x", hash)
}

func TestFingerprint(t *testing.T) {
	if got := fnv1a("a"); got != "af63dc4c8601ec8c" {
		t.Fatalf("the test's own hash is wrong: %s", got)
	}
	for _, c := range []struct {
		name, text, canonical string
	}{
		{"white space", " {\n\t\"a\" : [ 1 , 2 ]\r\n} ", `{"a":[1,2]}`},
		{"key order", `{"b":1,"a":2}`, `{"a":2,"b":1}`},
		{"key order inside", `{"x":[{"b":{"d":1,"c":2},"a":2}]}`, `{"x":[{"a":2,"b":{"c":2,"d":1}}]}`},
		{"keys by bytes", `{"é":1,"z":2,"Z":3,"10":4,"9":5,"":6,"𐀀":7,"ﬀ":8}`, `{"":6,"10":4,"9":5,"Z":3,"z":2,"é":1,"ﬀ":8,"𐀀":7}`},
		{"keys that differ in spelling only", `{"\u0061":1}`, `{"a":1}`},
		{"order of a list stays", `[3,1,2]`, `[3,1,2]`},
		{"no HTML escapes", `"\u003ca\u003e\u0026'<>&"`, `"<a>&'<>&"`},
		{"line separators stay plain", "[\"a\u2028b\u2029\",\"\\u2028\"]", "[\"a\u2028b\u2029\",\"\u2028\"]"},
		{"line separator in a key", "{\"\\u2028\":1,\"\\u2027\":2}", "{\"\u2027\":2,\"\u2028\":1}"},
		{"an escaped backslash before u2028", `"\\u2028\\\u2028\\\\u2029"`, "\"\\\\u2028\\\\\u2028\\\\\\\\u2029\""},
		{"control characters", `"\u0001\u001f\b\f\n\r\t\"\\\/\u007f"`, "\"\\u0001\\u001f\\b\\f\\n\\r\\t\\\"\\\\/\x7f\""},
		{"letters of all kinds", `"\u00e9\ud83d\ude00"`, `"é😀"`},
		{"large integers", `[18446744073709551615,-9223372036854775808]`, `[18446744073709551615,-9223372036854775808]`},
		{"numbers keep their text", `[1.50,1e2,0]`, `[1.50,1e2,0]`},
		{"the last of two equal keys counts", `{"a":{"x":1},"a":{"y":2}}`, `{"a":{"y":2}}`},
		{"scalars", `[null,true,false]`, `[null,true,false]`},
		{"empty", ``, ``},
		{"no JSON is hashed as it is", ` not JSON `, ` not JSON `},
		{"a value and something behind", `{"b":1, "a":2} x`, `{"b":1, "a":2} x`},
		{"a value and a brace", `{"b":1, "a":2} }`, `{"b":1, "a":2} }`},
		{"a value and a bracket", `[1, 2] ]`, `[1, 2] ]`},
		{"two values", `{"b":1, "a":2} {}`, `{"b":1, "a":2} {}`},
		{"no UTF-8", "{\"b\": \"\xff\", \"a\":2}", "{\"b\": \"\xff\", \"a\":2}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, want := Fingerprint([]byte(c.text)), fnv1a(c.canonical); got != want {
				t.Errorf("got %s, want %s, that of %q", got, want, c.canonical)
			}
		})
	}
}

// TestFingerprintSpelling spells one value in two ways.
func TestFingerprintSpelling(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := rapid.MapOfN(rapid.String(), rapid.String(), 0, 8).Draw(t, "members")
		keys := slices.Collect(maps.Keys(members))
		one := object(t, keys, members, "")
		two := object(t, rapid.Permutation(keys).Draw(t, "order"), members, rapid.SampledFrom([]string{" ", "\n", "\t\r\n"}).Draw(t, "space"))
		if Fingerprint(one) != Fingerprint(two) {
			t.Fatalf("%q and %q differ", one, two)
		}
	})
}

// object is a JSON object with its keys in the given order.
func object(t *rapid.T, keys []string, members map[string]string, space string) []byte {
	parts := make([]string, len(keys))
	for i, k := range keys {
		key, err := json.Marshal(k)
		if err != nil {
			t.Fatal(err)
		}
		value, err := json.Marshal(members[k])
		if err != nil {
			t.Fatal(err)
		}
		parts[i] = string(key) + space + ":" + space + string(value)
	}
	return []byte(space + "{" + strings.Join(parts, space+","+space) + "}" + space)
}

func FuzzParseABI(f *testing.F) {
	f.Add([]byte(springABI))
	f.Add([]byte(oldABI))
	f.Add([]byte(`{"version":"eosio::abi/1.1","variants":[{"name":"request","types":null},{}]}`))
	f.Add([]byte(`{"version":"eosio::abi/1.1"} }`))
	f.Add([]byte("{\"version\":\"eosio::abi/1.1\",\"\u2028\":1e400}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := ParseABI(text)
		if len(Fingerprint(text)) != 16 {
			t.Errorf("the fingerprint is %q", Fingerprint(text))
		}
		if err != nil {
			return
		}
		canonical, err := canonicalJSON(text)
		if err != nil {
			t.Fatalf("an ABI has no canonical form: %v", err)
		}
		if again := Fingerprint(canonical); again != a.Fingerprint {
			t.Errorf("%s as it came, %s in canonical form", a.Fingerprint, again)
		}
		if a.Compatible() && !a.Knows("get_status_request_v0") {
			t.Error("a compatible node does not know the first request")
		}
	})
}
