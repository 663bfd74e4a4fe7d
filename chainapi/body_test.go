package chainapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const (
	someID   = "000001025aa7b8c9d0e1f20304050607080910111213141516171819202122ff"
	digitsID = "0000000000000258000000000000000000000000000000000000000000000000"
)

func TestQuestion(t *testing.T) {
	num := func(n uint32) Question { return Question{Num: n, Known: true} }
	byID := func(n uint32) Question { return Question{Num: n, ByID: true, Known: true} }
	none := Question{}
	for _, c := range []struct {
		path, body string
		want       Question
	}{
		{rawBlockPath, `{"block_num_or_id":5}`, num(5)},
		{rawBlockPath, `{"block_num_or_id":0}`, num(0)},
		{rawBlockPath, `{"block_num_or_id":"5"}`, num(5)},
		{rawBlockPath, `{"block_num_or_id":"0005"}`, num(5)},
		{rawBlockPath, `{"block_num_or_id":4294967301}`, num(5)},
		{rawBlockPath, `{"block_num_or_id":"4294967301"}`, num(5)},
		{rawBlockPath, `{"block_num_or_id":18446744073709551615}`, num(4294967295)},
		{rawBlockPath, `{"block_num_or_id":"` + someID + `"}`, byID(258)},
		{rawBlockPath, `{"block_num_or_id":"` + strings.ToUpper(someID) + `"}`, byID(258)},
		{rawBlockPath, `{"block_num_or_id":"0a"}`, byID(0x0a000000)},
		// Digits that fit in 64 bits are a number, however many there are.
		{rawBlockPath, `{"block_num_or_id":"` + strings.Repeat("0", 62) + `12"}`, num(12)},
		// More of them are an id, as they are on nodeos.
		{rawBlockPath, `{"block_num_or_id":"18446744073709551616"}`, byID(0x18446744)},
		{rawBlockPath, `{"block_num_or_id":"` + digitsID + `"}`, byID(0)},
		{rawBlockPath, " \t\r\n{ \"block_num_or_id\" : 7 , \"a\" : [ 1 , { \"b\" : null } ] } \n", num(7)},
		{rawBlockPath, `{"a":-1,"block_num_or_id":7,"b":true,"c":"é","":0}`, num(7)},
		{rawBlockPath, `{"a":{"block_num_or_id":9},"block_num_or_id":7}`, num(7)},
		{blockPath, `{"block_num_or_id":7}`, num(7)},
		{headerPath, `{"block_num_or_id":7}`, num(7)},
		{headerStatePath, `{"block_num_or_id":7}`, num(7)},
		{headerStatePath, `{"block_num_or_id":"` + someID + `"}`, byID(258)},
		{headerStatePath, `{"block_num_or_id":"0a"}`, none},
		{blockInfoPath, `{"block_num":7}`, num(7)},
		{blockInfoPath, `{"block_num":"7"}`, num(7)},
		{blockInfoPath, `{"block_num":"` + someID + `"}`, none},
		{blockInfoPath, `{"block_num_or_id":7}`, none},
		{rawBlockPath, `{"block_num":7}`, none},

		{rawBlockPath, ``, none}, {rawBlockPath, `{}`, none}, {rawBlockPath, `5`, none}, {rawBlockPath, `[{"block_num_or_id":5}]`, none},
		{rawBlockPath, `null`, none}, {rawBlockPath, "\ufeff{\"block_num_or_id\":5}", none},
		{rawBlockPath, `{"block_num_or_id":5`, none}, {rawBlockPath, `{"block_num_or_id":5,}`, none}, {rawBlockPath, `{,"block_num_or_id":5}`, none},
		{rawBlockPath, `{"block_num_or_id":5}x`, none}, {rawBlockPath, `{"block_num_or_id":5}{}`, none}, {rawBlockPath, "{\"block_num_or_id\":5}\x00", none},
		{rawBlockPath, `{"block_num_or_id":05}`, none}, {rawBlockPath, `{"block_num_or_id":+5}`, none}, {rawBlockPath, `{"block_num_or_id":-5}`, none},
		{rawBlockPath, `{"block_num_or_id":-0}`, none}, {rawBlockPath, `{"block_num_or_id":-}`, none}, {rawBlockPath, `{"block_num_or_id":}`, none},
		{rawBlockPath, `{"block_num_or_id":5.0}`, none}, {rawBlockPath, `{"block_num_or_id":5e0}`, none}, {rawBlockPath, `{"block_num_or_id":5,"a":[0.5]}`, none},
		{rawBlockPath, `{"block_num_or_id":18446744073709551616}`, none},
		{rawBlockPath, `{"block_num_or_id":5,"block_num_or_id":5}`, none}, {rawBlockPath, `{"a":1,"block_num_or_id":5,"a":2}`, none},
		{rawBlockPath, `{"block_num_or_id":"\u0035"}`, none}, {rawBlockPath, `{"block_num_or_id":5,"a":"\\"}`, none},
		{rawBlockPath, "{\"block_num_or_id\":5,\"a\":\"\n\"}", none}, {rawBlockPath, "{\"block_num_or_id\":5,\"a\":\"\xff\"}", none},
		{rawBlockPath, `{"block_num_or_id":true}`, none}, {rawBlockPath, `{"block_num_or_id":null}`, none}, {rawBlockPath, `{"block_num_or_id":[5]}`, none},
		{rawBlockPath, `{"block_num_or_id":""}`, none}, {rawBlockPath, `{"block_num_or_id":" 5"}`, none}, {rawBlockPath, `{"block_num_or_id":"+5"}`, none},
		{rawBlockPath, `{"block_num_or_id":"abc"}`, none}, {rawBlockPath, `{"block_num_or_id":"zz"}`, none}, {rawBlockPath, `{"block_num_or_id":"` + someID + `00"}`, none},
		{rawBlockPath, `{"block_num_or_id":5,"a":[1,]}`, none}, {rawBlockPath, `{"block_num_or_id":5,"a":[1 2]}`, none}, {rawBlockPath, `{"block_num_or_id":5,"a":{1:2}}`, none},
		{rawBlockPath, `{"block_num_or_id":5,"a":tru}`, none}, {rawBlockPath, `{"block_num_or_id":5,"a":{"b" 1}}`, none},
		{rawBlockPath, `{"block_num_or_id":5,"a":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, none},
		{rawBlockPath, `{"block_num_or_id":5,"a":` + strings.Repeat("[", 20) + strings.Repeat("]", 20) + `}`, num(5)},
	} {
		if got := question([]byte(c.path), []byte(c.body)); got != c.want {
			t.Errorf("%s %.90q gives %+v, %+v was due", c.path, c.body, got, c.want)
		}
	}
}

func TestManyKeysAreTold(t *testing.T) {
	var b strings.Builder
	b.WriteString(`{"block_num_or_id":5`)
	for i := range 100 {
		fmt.Fprintf(&b, `,"k%d":%d`, i, i)
	}
	if got := question([]byte(rawBlockPath), []byte(b.String()+"}")); !got.Known {
		t.Error("a body with many keys is not read")
	}
	for _, again := range []string{"k3", "k77", "block_num_or_id"} {
		if got := question([]byte(rawBlockPath), fmt.Appendf(nil, `%s,"%s":1}`, b.String(), again)); got.Known {
			t.Errorf("the key %s is there twice, but the body is read", again)
		}
	}
}

// Whatever is read is what every JSON reader reads: the standard library agrees
// on the value.
func agree(t interface{ Errorf(string, ...any) }, body []byte) {
	q := question([]byte(rawBlockPath), body)
	if !q.Known {
		return
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(body, &got); err != nil {
		t.Errorf("%q was read, but is no JSON: %v", body, err)
		return
	}
	value := strings.ToLower(strings.Trim(string(got["block_num_or_id"]), `"`))
	if q.ByID {
		if want := fmt.Sprintf("%08x", q.Num); !strings.HasPrefix(value+"00000000", want) {
			t.Errorf("%q gives the id %s", body, want)
		}
		return
	}
	var n uint64
	if _, err := fmt.Sscan("1"+value, &n); err == nil && !strings.HasPrefix(value, "0") {
		// Only the low 32 bits count.
		if _, err := fmt.Sscan(value, &n); err != nil || uint32(n) != q.Num {
			t.Errorf("%q gives the block %d", body, q.Num)
		}
	}
}

func TestQuestionAgreesWithJSON(t *testing.T) {
	parts := []string{`{`, `}`, `"block_num_or_id"`, `:`, `,`, `5`, `"5"`, `-`, `[`, `]`, `"a"`, ` `, `1.5`, `null`, `"0a"`, `\`, `"`, `00`}
	rapid.Check(t, func(t *rapid.T) {
		agree(t, []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 14).Draw(t, "parts"), "")))
	})
}

func FuzzQuestion(f *testing.F) {
	for _, seed := range []string{`{"block_num_or_id":5}`, `{"block_num_or_id":"0a"}`, `{"x":[1,{"y":null}],"block_num_or_id":"7"}`, `{"a":1,"a":2}`, ``} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		agree(t, body)
		for _, p := range []string{blockInfoPath, headerStatePath, blockPath} {
			question([]byte(p), body)
		}
	})
}
