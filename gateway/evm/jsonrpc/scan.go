package jsonrpc

import (
	"bytes"
	"encoding/json"
	"errors"
)

// scanner walks over a JSON text.
type scanner struct {
	text []byte
	at   int
}

// next skips white space and returns the byte that is there, 0 at the end.
func (s *scanner) next() byte {
	for s.at < len(s.text) {
		switch c := s.text[s.at]; c {
		case ' ', '\t', '\n', '\r':
			s.at++
		case 0:
			// Must not look like the end.
			return 1
		default:
			return c
		}
	}
	return 0
}

// object walks over the object that begins here and hands over each key,
// without its quotes, and each value as it is written. It stops when each
// returns false. It reports whether the end of the object was found or each
// stopped.
func (s *scanner) object(each func(key, value []byte) bool) bool {
	if s.next() != '{' {
		return false
	}
	s.at++
	if s.next() == '}' {
		s.at++
		return true
	}
	for {
		if s.next() != '"' {
			return false
		}
		start := s.at
		if !s.skipText() {
			return false
		}
		key := s.text[start+1 : s.at-1]
		if s.next() != ':' {
			return false
		}
		s.at++
		value, ok := s.value()
		if !ok {
			return false
		}
		if !each(key, value) {
			return true
		}
		switch s.next() {
		case ',':
			s.at++
		case '}':
			s.at++
			return true
		default:
			return false
		}
	}
}

// array walks over the array that begins here as object does.
func (s *scanner) array(each func(index int, value []byte) bool) bool {
	if s.next() != '[' {
		return false
	}
	s.at++
	if s.next() == ']' {
		s.at++
		return true
	}
	for i := 0; ; i++ {
		value, ok := s.value()
		if !ok {
			return false
		}
		if !each(i, value) {
			return true
		}
		switch s.next() {
		case ',':
			s.at++
		case ']':
			s.at++
			return true
		default:
			return false
		}
	}
}

// value skips one value and returns it as it is written.
func (s *scanner) value() ([]byte, bool) {
	first := s.next()
	start := s.at
	ok := true
	switch first {
	case 0, ',', ':', ']', '}':
		return nil, false
	case '"':
		ok = s.skipText()
	case '{', '[':
		ok = s.skipNested()
	default:
		s.skipWord()
	}
	return s.text[start:s.at], ok
}

// skipText skips the text whose opening quote is here.
func (s *scanner) skipText() bool {
	s.at++
	for {
		i := bytes.IndexByte(s.text[s.at:], '"')
		if i < 0 {
			return false
		}
		end := s.at + i
		escapes := 0
		for end-escapes > s.at && s.text[end-escapes-1] == '\\' {
			escapes++
		}
		s.at = end + 1
		if escapes%2 == 0 {
			return true
		}
	}
}

// skipNested skips an object or an array without a look at what is in it.
func (s *scanner) skipNested() bool {
	depth := 0
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case '"':
			if !s.skipText() {
				return false
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.at++
				return true
			}
		}
		s.at++
	}
	return false
}

// skipWord skips a number, true, false or null.
func (s *scanner) skipWord() {
	for s.at < len(s.text) {
		switch s.text[s.at] {
		case ' ', '\t', '\n', '\r', ',', ':', ']', '}', '{', '[', '"':
			return
		}
		s.at++
	}
}

// Text is the text that a raw value holds; ok is false for a value that is no
// text. It is a part of the value unless that has escapes.
func Text(value []byte) (text []byte, ok bool) {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return nil, false
	}
	inner := value[1 : len(value)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner, true
	}
	return unescape(inner)
}

func unescape(inner []byte) ([]byte, bool) {
	quoted := make([]byte, 0, len(inner)+2)
	quoted = append(append(append(quoted, '"'), inner...), '"')
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return nil, false
	}
	return []byte(text), true
}

var errNotNumber = errors.New("the value is no number in hex digits")

// Number is a quantity: a text of "0x" and one to sixteen hex digits.
func Number(value []byte) (uint64, error) {
	text, ok := Text(value)
	if !ok {
		return 0, errNotNumber
	}
	return Hex(text)
}

// Hex is the number that "0x" and one to sixteen hex digits stand for. Leading
// zeros are taken, as some nodes do.
func Hex(text []byte) (uint64, error) {
	if len(text) < 3 || text[0] != '0' || text[1]|0x20 != 'x' {
		return 0, errNotNumber
	}
	var n uint64
	for _, c := range text[2:] {
		var digit byte
		switch {
		case '0' <= c && c <= '9':
			digit = c - '0'
		case 'a' <= c && c <= 'f':
			digit = c - 'a' + 10
		case 'A' <= c && c <= 'F':
			digit = c - 'A' + 10
		default:
			return 0, errNotNumber
		}
		if n>>60 != 0 {
			return 0, errNotNumber
		}
		n = n<<4 | uint64(digit)
	}
	return n, nil
}
