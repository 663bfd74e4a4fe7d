package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// readJSON reads a strict JSON object into nodes. It returns nil when the text
// is none, after a complaint.
func readJSON(r *report, src *source) *node {
	if !utf8.Valid(src.text) {
		at := 0
		for at < len(src.text) {
			c, size := utf8.DecodeRune(src.text[at:])
			if c == utf8.RuneError && size == 1 {
				break
			}
			at += size
		}
		r.problem(src.at(at), "the file is not UTF-8 text", "")
		return nil
	}
	// The whole text is checked first: this finds the right offset of an
	// error, bounds the depth, and leaves nothing behind the last brace.
	var whole json.RawMessage
	if err := json.Unmarshal(src.text, &whole); err != nil {
		at := len(src.text)
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok && !strings.Contains(err.Error(), "unexpected end") {
			at = int(syntax.Offset) - 1
		}
		r.problem(src.at(at), fmt.Sprintf("the file is not JSON: %v", err),
			"JSON has no comments, no trailing commas and no byte order mark")
		return nil
	}
	j := jsonReader{src: src, decoder: json.NewDecoder(bytes.NewReader(src.text))}
	j.decoder.UseNumber()
	n := j.value(j.next())
	if n.kind != objectNode {
		r.problem(n.at, fmt.Sprintf("the file holds %s", n.describe()), "a JSON object { ... } is expected")
		return nil
	}
	return n
}

// jsonReader walks over a text that is known to be valid.
type jsonReader struct {
	src     *source
	decoder *json.Decoder
	// at is where the current token begins.
	at place
}

func (j *jsonReader) next() json.Token {
	from := int(j.decoder.InputOffset())
	for from < len(j.src.text) && bytes.IndexByte([]byte(" \t\r\n,:"), j.src.text[from]) >= 0 {
		from++
	}
	j.at = j.src.at(from)
	token, err := j.decoder.Token()
	if err != nil {
		// Cannot happen for a valid text; the value then counts as null.
		return nil
	}
	return token
}

func (j *jsonReader) value(token json.Token) *node {
	n := &node{at: j.at}
	switch v := token.(type) {
	case string:
		n.kind, n.text = textNode, v
	case json.Number:
		n.kind, n.text = numberNode, v.String()
	case bool:
		n.kind, n.flag = flagNode, v
	case json.Delim:
		if v == '[' {
			n.kind = listNode
			for j.decoder.More() {
				n.items = append(n.items, j.value(j.next()))
			}
		} else {
			n.kind = objectNode
			for j.decoder.More() {
				name, _ := j.next().(string)
				at := j.at
				n.members = append(n.members, member{name, at, j.value(j.next())})
			}
		}
		j.next()
	default:
		n.kind = nullNode
	}
	return n
}
