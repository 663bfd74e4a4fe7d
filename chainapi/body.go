package chainapi

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"unicode/utf8"
)

// Question is the block that a request names.
type Question struct {
	Num uint32
	// ByID: the block was named by an id, of which Num is the beginning.
	ByID bool
	// Known is false when no block number can be read.
	Known bool
}

// question reads the block of a request from its body (seed 003 "The block
// number"). nodeos has a JSON reader of its own, so a number is only read from
// bodies that it and standard JSON take for the same: anything doubtful is for
// a live node to judge.
func question(path, body []byte) Question {
	key := "block_num_or_id"
	if string(path) == blockInfoPath {
		key = "block_num"
	}
	if bytes.IndexByte(body, '\\') >= 0 || !utf8.Valid(body) {
		return Question{}
	}
	r := reader{text: body}
	value, ok := r.member(key)
	if !ok {
		return Question{}
	}
	if value[0] != '"' {
		if value[0] == '-' {
			return Question{}
		}
		n, err := strconv.ParseUint(string(value), 10, 64)
		if err != nil {
			return Question{}
		}
		return Question{Num: uint32(n), Known: true}
	}
	text := value[1 : len(value)-1]
	if isDigits(text) {
		if n, err := strconv.ParseUint(string(text), 10, 64); err == nil {
			return Question{Num: uint32(n), Known: true}
		}
		// nodeos takes what is no 64-bit number for an id.
	}
	return blockID(path, text)
}

// blockID reads an id: an even number of hex digits, at most 64, of which the
// first eight are the block number.
func blockID(path, text []byte) Question {
	if len(text) == 0 || len(text) > 64 || len(text)%2 != 0 {
		return Question{}
	}
	switch string(path) {
	case blockInfoPath: // nodeos takes no id there
		return Question{}
	case headerStatePath:
		if len(text) != 64 {
			return Question{}
		}
	}
	var id [32]byte
	if _, err := hex.Decode(id[:], text); err != nil {
		return Question{}
	}
	return Question{Num: binary.BigEndian.Uint32(id[:4]), ByID: true, Known: true}
}

func isDigits(text []byte) bool {
	for _, c := range text {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(text) > 0
}

// maxDepth is how deep a body may nest; nodeos refuses deeper ones.
const maxDepth = 32

// fewKeys is up to how many top-level keys are compared one by one.
const fewKeys = 16

// reader walks once over a JSON text in UTF-8 without a backslash. It knows
// integers only: a text with any other number is not for us to read.
type reader struct {
	text []byte
	at   int
}

// member is the value of a top-level key, in its own bytes. It reports false
// unless the whole text is one object, in which no top-level key repeats, with
// that key and a string or an integer as its value.
func (r *reader) member(key string) (found []byte, ok bool) {
	r.space()
	if !r.take('{') {
		return nil, false
	}
	r.space()
	var keys keySet
	for first := true; !r.take('}'); first = false {
		if !first {
			if !r.take(',') {
				return nil, false
			}
			r.space()
		}
		name, ok := r.string()
		if !ok || !keys.add(name) {
			return nil, false
		}
		r.space()
		if !r.take(':') {
			return nil, false
		}
		r.space()
		from := r.at
		if !r.value(1) {
			return nil, false
		}
		if string(name) == key {
			found = r.text[from:r.at]
		}
		r.space()
	}
	r.space()
	if r.at != len(r.text) || found == nil {
		return nil, false
	}
	c := found[0]
	return found, c == '"' || c == '-' || c >= '0' && c <= '9'
}

// keySet are the keys seen so far.
type keySet struct {
	few  [fewKeys][]byte
	n    int
	many map[string]struct{}
}

// add reports false for a key that is there already.
func (s *keySet) add(key []byte) bool {
	for _, k := range s.few[:min(s.n, fewKeys)] {
		if bytes.Equal(k, key) {
			return false
		}
	}
	if s.n < fewKeys {
		s.few[s.n] = key
		s.n++
		return true
	}
	if s.many == nil {
		s.many = map[string]struct{}{}
	}
	if _, seen := s.many[string(key)]; seen {
		return false
	}
	s.many[string(key)] = struct{}{}
	return true
}

func (r *reader) space() {
	for r.at < len(r.text) {
		switch r.text[r.at] {
		case ' ', '\t', '\r', '\n':
			r.at++
		default:
			return
		}
	}
}

func (r *reader) take(c byte) bool {
	if r.at < len(r.text) && r.text[r.at] == c {
		r.at++
		return true
	}
	return false
}

func (r *reader) word(w string) bool {
	if bytes.HasPrefix(r.text[r.at:], []byte(w)) {
		r.at += len(w)
		return true
	}
	return false
}

// string is the inside of a string. There are no escapes.
func (r *reader) string() ([]byte, bool) {
	if !r.take('"') {
		return nil, false
	}
	from := r.at
	for ; r.at < len(r.text); r.at++ {
		switch c := r.text[r.at]; {
		case c == '"':
			r.at++
			return r.text[from : r.at-1], true
		case c < ' ':
			return nil, false
		}
	}
	return nil, false
}

func (r *reader) value(depth int) bool {
	if r.at == len(r.text) || depth > maxDepth {
		return false
	}
	switch c := r.text[r.at]; {
	case c == '"':
		_, ok := r.string()
		return ok
	case c == '{':
		return r.list('}', depth, true)
	case c == '[':
		return r.list(']', depth, false)
	case c == '-' || c >= '0' && c <= '9':
		return r.integer()
	default:
		return r.word("true") || r.word("false") || r.word("null")
	}
}

// list is an object or an array.
func (r *reader) list(end byte, depth int, keyed bool) bool {
	r.at++
	r.space()
	for first := true; !r.take(end); first = false {
		if !first {
			if !r.take(',') {
				return false
			}
			r.space()
		}
		if keyed {
			if _, ok := r.string(); !ok {
				return false
			}
			r.space()
			if !r.take(':') {
				return false
			}
			r.space()
		}
		if !r.value(depth + 1) {
			return false
		}
		r.space()
	}
	return true
}

func (r *reader) integer() bool {
	r.take('-')
	from := r.at
	for r.at < len(r.text) && r.text[r.at] >= '0' && r.text[r.at] <= '9' {
		r.at++
	}
	digits := r.text[from:r.at]
	if len(digits) == 0 || len(digits) > 1 && digits[0] == '0' {
		return false
	}
	if r.at == len(r.text) {
		return true
	}
	c := r.text[r.at]
	return c != '.' && c != 'e' && c != 'E'
}
