// Package jsonrpc reads JSON-RPC bodies as far as a gateway has to, and no
// further: which methods are called, with which ids and parameters. Everything
// is a slice of the body; reading a usual body allocates nothing.
//
// It is no validator. A body that the nodes would refuse may be read without an
// error; the nodes have the last word. What it does find is where each call of
// a valid body begins and ends.
package jsonrpc

import (
	"bytes"
	"errors"
)

// Call is one call of a body. Its slices are parts of the body, and are valid
// as long as that is.
type Call struct {
	// Raw is the whole object, from brace to brace.
	Raw []byte
	// Method is the text of "method"; empty when there is none.
	Method []byte
	// ID is the value of "id" as it is written, nil when there is none.
	ID []byte
	// Params is the value of "params" as it is written, nil when there is none.
	Params []byte
}

// Notification reports whether the call has no id, so that nobody answers it.
func (c *Call) Notification() bool { return c.ID == nil }

// ErrNotRead is the error for a body that is neither a call nor a batch of
// calls, or whose calls cannot be told apart.
var ErrNotRead = errors.New("the body is no JSON-RPC call and no batch of them")

// Read appends the calls of a body to calls, which may be nil, and reports
// whether they stand in a batch. Keys may be escaped or have another case, as
// nodes in Go take them; of a key that is given twice the last one counts.
// After an error the calls that were appended mean nothing.
func Read(body []byte, calls []Call) (_ []Call, batch bool, err error) {
	s := scanner{text: body}
	switch s.next() {
	case '{':
		call, ok := s.call()
		if !ok || s.next() != 0 {
			return calls, false, ErrNotRead
		}
		return append(calls, call), false, nil
	case '[':
		s.at++
		if s.next() == ']' {
			s.at++
			if s.next() != 0 {
				return calls, true, ErrNotRead
			}
			return calls, true, nil
		}
		for {
			if s.next() != '{' {
				return calls, true, ErrNotRead
			}
			call, ok := s.call()
			if !ok {
				return calls, true, ErrNotRead
			}
			calls = append(calls, call)
			switch s.next() {
			case ',':
				s.at++
			case ']':
				s.at++
				if s.next() != 0 {
					return calls, true, ErrNotRead
				}
				return calls, true, nil
			default:
				return calls, true, ErrNotRead
			}
		}
	}
	return calls, false, ErrNotRead
}

// call reads the object that begins here.
func (s *scanner) call() (c Call, ok bool) {
	start := s.at
	ok = s.object(func(key, value []byte) bool {
		switch {
		case is(key, "id"):
			c.ID = value
		case is(key, "method"):
			// A method that is no text is none; the node says so.
			c.Method, _ = Text(value)
		case is(key, "params"):
			c.Params = value
		}
		return true
	})
	c.Raw = s.text[start:s.at]
	return c, ok
}

// is compares a raw key, without its quotes, with a lower-case name.
func is(key []byte, name string) bool {
	if len(key) == len(name) {
		if string(key) == name {
			return true
		}
		return bytes.EqualFold(key, []byte(name))
	}
	if bytes.IndexByte(key, '\\') < 0 {
		return false
	}
	text, ok := unescape(key)
	return ok && bytes.EqualFold(text, []byte(name))
}
