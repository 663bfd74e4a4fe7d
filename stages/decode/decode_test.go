package decode_test

import (
	"bytes"
	"reflect"
	"testing"

	"flotilla/gateway/pipeline"
	"flotilla/gateway/ship"
	"flotilla/stages/decode"
	"flotilla/stages/stagetest"
)

// up takes a message through the stage.
func up(x *pipeline.Exchange, message []byte) pipeline.Step {
	x.Message = message
	return decode.New(nil).(pipeline.Upward).Up(x)
}

func TestUnderstands(t *testing.T) {
	v0 := ship.BlocksRequest{Start: 7, End: 99, MaxInFlight: 3, Have: []ship.Pos{stagetest.Pos(5), stagetest.Pos(6)}, FetchBlock: true, FetchDeltas: true}
	v1 := v0
	v1.V1, v1.Irreversible, v1.FetchTraces, v1.FetchFinality = true, true, true, true
	plain := ship.BlocksRequest{Start: 7, End: 99}
	for _, c := range []struct {
		name    string
		message []byte
		want    ship.Request
	}{
		{"status v0", []byte{0}, ship.Request{Variant: ship.StatusRequestV0}},
		{"status v1", []byte{4}, ship.Request{Variant: ship.StatusRequestV1}},
		{"ack", []byte{2, 1, 2, 0, 0}, ship.Request{Variant: ship.AckRequestV0, Ack: 0x201}},
		{"blocks v0", ship.AppendRequest(nil, &v0), ship.Request{Variant: ship.BlocksRequestV0, Blocks: v0}},
		{"blocks v1", ship.AppendRequest(nil, &v1), ship.Request{Variant: ship.BlocksRequestV1, Blocks: v1}},
		{"a v0 request with one more byte has no finality flag", append(ship.AppendRequest(nil, &plain), 1), ship.Request{Variant: ship.BlocksRequestV0, Blocks: plain}},
		{"what follows is ignored", []byte{2, 1, 0, 0, 0, 0xff, 0xff}, ship.Request{Variant: ship.AckRequestV0, Ack: 1}},
		{"an index in two bytes", []byte{0x82, 0, 1, 0, 0, 0}, ship.Request{Variant: ship.AckRequestV0, Ack: 1}},
		{"an unknown variant passes", []byte{9, 1, 2, 3}, ship.Request{Variant: 9}},
		{"the largest variant passes", []byte{0xff, 0xff, 0xff, 0xff, 0x0f}, ship.Request{Variant: 1<<32 - 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := stagetest.Exchange()
			if step := up(x, c.message); step != (pipeline.Step{}) {
				t.Fatalf("the stage ends with %+v", step)
			}
			if !reflect.DeepEqual(x.Request, c.want) {
				t.Errorf("decoded %+v, want %+v", x.Request, c.want)
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	blocks := ship.AppendRequest(nil, &ship.BlocksRequest{Start: 1, End: 2, MaxInFlight: 1})
	with := func(at int, value ...byte) []byte {
		b := bytes.Clone(blocks)
		copy(b[at:], value)
		return b
	}
	for _, c := range []struct {
		name    string
		message []byte
	}{
		{"empty", nil},
		{"an ack cut short", []byte{2, 1, 0, 0}},
		{"a request cut short", blocks[:len(blocks)-1]},
		{"a bool that is 2", with(len(blocks)-1, 2)},
		{"an index that does not fit", []byte{0xff, 0xff, 0xff, 0xff, 0x1f}},
		{"more positions than bytes", with(13, 1)},
		{"too many positions", append(bytes.Clone(blocks[:13]), 0x81, 0x80, 0x40)},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, want := up(stagetest.Exchange(), c.message), pipeline.Closing(1007, "invalid request"); got != want {
				t.Errorf("the stage ends with %+v, want %+v", got, want)
			}
		})
	}
}

// Without a message there is nothing to decode: the request before stays.
func TestOnlyMessages(t *testing.T) {
	for _, cause := range []pipeline.Cause{pipeline.Connect, pipeline.Replace} {
		x := stagetest.Exchange()
		x.Cause, x.Request = cause, ship.Request{Variant: ship.AckRequestV0, Ack: 5}
		if step := up(x, nil); step != (pipeline.Step{}) || x.Request.Ack != 5 {
			t.Errorf("cause %d: ends with %+v, the request is %+v", cause, step, x.Request)
		}
	}
}

// The message is the reader's buffer, which is used again.
func TestKeepsNothingOfTheMessage(t *testing.T) {
	x := stagetest.Exchange()
	message := ship.AppendRequest(nil, &ship.BlocksRequest{Have: []ship.Pos{stagetest.Pos(5)}})
	up(x, message)
	clear(message)
	if got := x.Request.Blocks.Have[0]; got != stagetest.Pos(5) {
		t.Errorf("the position turned into %v", got)
	}
}
