package jsonrpc

import (
	"encoding/json"
	"strconv"
)

// Answer is one answer of a node. Its slices are parts of the body.
type Answer struct {
	// Raw is the whole object.
	Raw []byte
	// ID is the value of "id" as it is written, nil when there is none.
	ID []byte
	// Result is the value of "result" as it is written, nil when there is none.
	Result []byte
	// Error is the value of "error" as it is written, nil when there is none or
	// it is null.
	Error []byte
	// Method and Params are those of a notification.
	Method, Params []byte
}

// ReadAnswer reads a body that holds one answer or one notification. It
// reports false for anything else.
func ReadAnswer(body []byte) (a Answer, ok bool) {
	s := scanner{text: body}
	a, ok = s.answer()
	return a, ok && s.next() == 0
}

// ReadAnswers appends the answers of a batch to list. It reports false when
// the body is no batch of objects.
func ReadAnswers(body []byte, list []Answer) ([]Answer, bool) {
	s := scanner{text: body}
	good := true
	ok := s.array(func(_ int, value []byte) bool {
		inner := scanner{text: value}
		a, read := inner.answer()
		good = good && read
		list = append(list, a)
		return good
	})
	return list, ok && good && s.next() == 0
}

func (s *scanner) answer() (a Answer, ok bool) {
	if s.next() != '{' {
		return a, false
	}
	start := s.at
	ok = s.object(func(key, value []byte) bool {
		switch {
		case is(key, "id"):
			a.ID = value
		case is(key, "result"):
			a.Result = value
		case is(key, "error"):
			if string(value) != "null" {
				a.Error = value
			}
		case is(key, "method"):
			a.Method, _ = Text(value)
		case is(key, "params"):
			a.Params = value
		}
		return true
	})
	a.Raw = s.text[start:s.at]
	return a, ok
}

// Member is the value of a member of a raw object, nil when there is none.
func Member(object []byte, name string) (value []byte) {
	s := scanner{text: object}
	s.object(func(key, v []byte) bool {
		if is(key, name) {
			value = v
		}
		return true
	})
	return value
}

// Element is the value at an index of a raw array, nil when there is none.
func Element(array []byte, index int) (value []byte) {
	s := scanner{text: array}
	s.array(func(i int, v []byte) bool {
		if i == index {
			value = v
		}
		return i < index
	})
	return value
}

// Each hands over the values of a raw array, in order.
func Each(array []byte, value func([]byte)) {
	s := scanner{text: array}
	s.array(func(_ int, v []byte) bool {
		value(v)
		return true
	})
}

// Fault is an error as a node or this gateway answers it.
type Fault struct {
	Code    int64
	Message string
}

// ReadFault reads a raw error object; what is missing stays zero.
func ReadFault(object []byte) (f Fault) {
	if code := Member(object, "code"); code != nil {
		f.Code, _ = strconv.ParseInt(string(code), 10, 64)
	}
	text, _ := Text(Member(object, "message"))
	f.Message = string(text)
	return f
}

// The codes of this gateway's own errors; the first is of the JSON-RPC 2.0
// specification, the others are of its range for servers.
const (
	CodeInvalidRequest = -32600
	CodeUnavailable    = -32000
	CodeLimit          = -32005
)

// AppendFault appends an error answer; an id of nil becomes null.
func AppendFault(to, id []byte, f Fault) []byte {
	to = append(to, `{"jsonrpc":"2.0","id":`...)
	if id == nil {
		id = []byte("null")
	}
	to = append(to, id...)
	to = append(to, `,"error":{"code":`...)
	to = strconv.AppendInt(to, f.Code, 10)
	to = append(to, `,"message":`...)
	message, _ := json.Marshal(f.Message) // A text can always be written.
	to = append(to, message...)
	return append(to, "}}"...)
}

// Inside is the value at the end of a path of member names, nil when there is
// none. What comes behind it is not read: of "result", "number" in an answer
// that holds a whole block, only the beginning is.
func Inside(object []byte, path ...string) []byte {
	s := scanner{text: object}
	for depth, name := range path {
		if s.next() != '{' {
			return nil
		}
		s.at++
		if !s.enter(name) {
			return nil
		}
		if depth == len(path)-1 {
			value, _ := s.value()
			return value
		}
	}
	return nil
}

// enter goes to the value of the first member of that name.
func (s *scanner) enter(name string) bool {
	for s.next() == '"' {
		start := s.at
		if !s.skipText() {
			return false
		}
		key := s.text[start+1 : s.at-1]
		if s.next() != ':' {
			return false
		}
		s.at++
		if string(key) == name {
			return true
		}
		if _, ok := s.value(); !ok || s.next() != ',' {
			return false
		}
		s.at++
	}
	return false
}
