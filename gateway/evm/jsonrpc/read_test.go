package jsonrpc

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

func TestRead(t *testing.T) {
	type call struct{ method, id, params string }
	for _, c := range []struct {
		name, body string
		batch      bool
		want       []call
		bad        bool
	}{
		{name: "a call", body: `{"jsonrpc":"2.0","id":1,"method":"eth_call","params":[{"to":"0x1"},"latest"]}`,
			want: []call{{"eth_call", "1", `[{"to":"0x1"},"latest"]`}}},
		{name: "white space", body: " {\n\"id\" : \"a b\" ,\t\"method\":\"m\"} \r\n", want: []call{{"m", `"a b"`, ""}}},
		{name: "ids as they are written", body: `{"id":1.50,"method":"m"}`, want: []call{{"m", "1.50", ""}}},
		{name: "null id", body: `{"id":null,"method":"m"}`, want: []call{{"m", "null", ""}}},
		{name: "notification", body: `{"method":"m"}`, want: []call{{"m", "", ""}}},
		{name: "no object at all inside", body: `{}`, want: []call{{"", "", ""}}},
		{name: "braces in texts", body: `{"params":["}]{\"["],"method":"m"}`, want: []call{{"m", "", `["}]{\"["]`}}},
		{name: "a backslash at the end of a text", body: `{"x":"\\","method":"m"}`, want: []call{{"m", "", ""}}},
		{name: "escaped key and method", body: `{"m\u0065thod":"eth\u005fcall"}`, want: []call{{"eth_call", "", ""}}},
		{name: "other case, as Go takes it", body: `{"Method":"m","ID":7}`, want: []call{{"m", "7", ""}}},
		{name: "the last one counts", body: `{"method":"a","Method":"b"}`, want: []call{{"b", "", ""}}},
		{name: "a method that is no text", body: `{"method":7}`, want: []call{{"", "", ""}}},
		{name: "a batch", body: `[{"method":"a","id":1} , {"method":"b","id":2}]`, batch: true,
			want: []call{{"a", "1", ""}, {"b", "2", ""}}},
		{name: "an empty batch", body: ` [ ] `, batch: true},
		{name: "empty", body: "", bad: true},
		{name: "no JSON", body: "not json", bad: true},
		{name: "a number", body: "3", bad: true},
		{name: "a text", body: `"x"`, bad: true},
		{name: "bytes", body: "\xff\xfe", bad: true},
		{name: "a zero byte behind it", body: "{}\x00", bad: true},
		{name: "cut off", body: `{"method":"a"`, bad: true},
		{name: "cut off in a text", body: `{"method":"a\"`, bad: true},
		{name: "two bodies", body: `{"method":"a"}{"method":"b"}`, bad: true},
		{name: "a batch of numbers", body: `[1,2]`, batch: true, bad: true},
		{name: "a batch with a comma too many", body: `[{},]`, batch: true, bad: true},
		{name: "no comma", body: `[{}{}]`, batch: true, bad: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			calls, batch, err := Read([]byte(c.body), nil)
			if (err != nil) != c.bad || batch != c.batch {
				t.Fatalf("batch %v, error %v", batch, err)
			}
			if c.bad {
				return
			}
			if len(calls) != len(c.want) {
				t.Fatalf("%d calls, want %d", len(calls), len(c.want))
			}
			for i, w := range c.want {
				got := call{string(calls[i].Method), string(calls[i].ID), string(calls[i].Params)}
				if got != w {
					t.Errorf("call %d is %q, want %q", i, got, w)
				}
				if raw := calls[i].Raw; raw[0] != '{' || raw[len(raw)-1] != '}' {
					t.Errorf("raw %q", raw)
				}
			}
		})
	}
}

// A batch that another encoder wrote comes apart where it was put together.
func TestReadFindsEveryCall(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type out struct {
			ID     any    `json:"id"`
			Method string `json:"method"`
			Params any    `json:"params"`
		}
		texts := rapid.SliceOfN(rapid.String(), 1, 8).Draw(t, "texts")
		var batch []out
		for i, text := range texts {
			batch = append(batch, out{i, text, []any{text, map[string]any{text: []any{text, nil, 1.5}}}})
		}
		body, err := json.Marshal(batch)
		if err != nil {
			t.Fatal(err)
		}
		calls, isBatch, err := Read(body, nil)
		if err != nil || !isBatch || len(calls) != len(batch) {
			t.Fatalf("%d of %d calls, batch %v, %v in %s", len(calls), len(batch), isBatch, err, body)
		}
		for i, c := range calls {
			want, _ := json.Marshal(batch[i])
			if !bytes.Equal(c.Raw, want) {
				t.Fatalf("raw %s, want %s", c.Raw, want)
			}
			var method string
			if json.Unmarshal(want[bytes.Index(want, []byte(`"method":`))+9:bytes.Index(want, []byte(`,"params"`))], &method) == nil && string(c.Method) != method {
				t.Fatalf("method %q, want %q", c.Method, method)
			}
		}
	})
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		raw  string
		want uint64
		bad  bool
	}{
		{raw: `"0x0"`}, {raw: `"0x64"`, want: 100}, {raw: `"0XfF"`, want: 255}, {raw: `"0x0064"`, want: 100},
		{raw: `"0xffffffffffffffff"`, want: 1<<64 - 1}, {raw: `"0x10000000000000000"`, bad: true},
		{raw: `"0x"`, bad: true}, {raw: `"64"`, bad: true}, {raw: `"0xg"`, bad: true}, {raw: `100`, bad: true},
		{raw: `null`, bad: true}, {raw: `"latest"`, bad: true}, {raw: ``, bad: true}, {raw: `"`, bad: true},
	} {
		n, err := Number([]byte(c.raw))
		if n != c.want || (err != nil) != c.bad {
			t.Errorf("%s is %d, %v", c.raw, n, err)
		}
	}
}

func TestReadAnswer(t *testing.T) {
	a, ok := ReadAnswer([]byte(`{"jsonrpc":"2.0","id":"k","result":{"number":"0x1"},"error":null}`))
	if !ok || string(a.ID) != `"k"` || string(Member(a.Result, "number")) != `"0x1"` || a.Error != nil {
		t.Fatalf("%q %v", a, ok)
	}
	a, ok = ReadAnswer([]byte(`{"id":1,"error":{"code":-32000,"message":"missing trie node \u0041"}}`))
	if f := ReadFault(a.Error); !ok || f != (Fault{-32000, "missing trie node A"}) {
		t.Fatalf("%+v", f)
	}
	if _, ok := ReadAnswer([]byte(`<html>`)); ok {
		t.Fatal("a page was read")
	}
	list, ok := ReadAnswers([]byte(`[{"id":2,"result":1},{"id":1,"result":null}]`), nil)
	if !ok || len(list) != 2 || string(list[1].ID) != "1" || string(list[1].Result) != "null" {
		t.Fatalf("%q", list)
	}
	if _, ok := ReadAnswers([]byte(`[{"id":2},3]`), nil); ok {
		t.Fatal("a number was read as an answer")
	}
}

func TestAppendFault(t *testing.T) {
	text := AppendFault(nil, nil, Fault{CodeLimit, "too \"many\"\n"})
	var read struct {
		ID    any
		Error struct {
			Code    int
			Message string
		}
	}
	if err := json.Unmarshal(text, &read); err != nil || read.ID != nil || read.Error.Code != CodeLimit || read.Error.Message != "too \"many\"\n" {
		t.Fatalf("%s: %v %+v", text, err, read)
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{"id":1,"method":"eth_chainId","params":[]}`, `[{"method":"a"},{"method":"b"}]`, `[]`, `{"a":"\\"}`, "{\"\x00", `{"a":[[[{`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		calls, batch, err := Read(body, nil)
		if !json.Valid(body) {
			return
		}
		// What is valid is read the way another reader reads it.
		var list []json.RawMessage
		switch body[bytes.IndexFunc(body, func(r rune) bool { return r > ' ' })] {
		case '{':
			list = []json.RawMessage{body}
		case '[':
			if json.Unmarshal(body, &list) != nil {
				return
			}
		default:
			if err == nil {
				t.Fatalf("%q was read", body)
			}
			return
		}
		for _, raw := range list {
			if len(raw) == 0 || bytes.TrimSpace(raw)[0] != '{' {
				if err == nil {
					t.Fatalf("%q was read", body)
				}
				return
			}
		}
		if err != nil || len(calls) != len(list) || batch != (bytes.TrimSpace(body)[0] == '[') {
			t.Fatalf("%q: %d of %d calls, batch %v, %v", body, len(calls), len(list), batch, err)
		}
		for i, c := range calls {
			if !bytes.Equal(c.Raw, bytes.TrimSpace(list[i])) {
				t.Fatalf("%q: call %d is %q, want %q", body, i, c.Raw, list[i])
			}
		}
	})
}

func BenchmarkRead(b *testing.B) {
	body := []byte(`{"jsonrpc":"2.0","id":1,"method":"eth_getBalance","params":["0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266","latest"]}`)
	calls := make([]Call, 0, 4)
	b.ReportAllocs()
	for b.Loop() {
		var err error
		if calls, _, err = Read(body, calls[:0]); err != nil {
			b.Fatal(err)
		}
	}
}
