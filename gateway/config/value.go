package config

import (
	"encoding/hex"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The most that fields without a bound of their own hold. Nobody waits longer
// and no message is larger; sums of such values still fit their types.
const (
	maxMillis = uint64(365 * 24 * time.Hour / time.Millisecond)
	maxSize   = 1 << 40
)

// mismatch is a value that its field does not take. The message goes on after
// the name of the field.
type mismatch struct{ message, hint string }

// parse turns a value into what assign stores.
func (f *field) parse(lang language, n *node) (any, *mismatch) {
	switch f.kind {
	case text:
		return f.parseText(n)
	case enum:
		return f.parseWord(n)
	case enums, texts:
		return f.parseList(n)
	case flag:
		if n.kind != flagNode {
			return nil, f.wrong(lang, n)
		}
		return n.flag, nil
	case count, millis, seconds, size:
		return f.parseAmount(lang, n)
	case chain:
		return f.parseChain(lang, n)
	case labels:
		return f.parseLabels(n)
	default:
		return nil, f.wrong(lang, n)
	}
}

// wrong is the mismatch of a value of the wrong type.
func (f *field) wrong(lang language, n *node) *mismatch {
	return &mismatch{"is " + n.describe(), f.expected(lang) + " is expected"}
}

// expected names what the field takes, with its bounds.
func (f *field) expected(lang language) string {
	switch f.kind {
	case text:
		return "a text"
	case enum:
		return "one of " + quoted(f.values)
	case enums:
		return "a list out of " + quoted(f.values)
	case texts:
		return "a list of texts"
	case flag:
		return "true or false"
	case chain:
		return "a text of 64 hex digits (32 bytes)"
	case labels:
		return `texts by name, { rack = "r1" },`
	case object, objects, opaque:
		if lang == inHCL && !f.inline {
			if f.example != "" {
				return "a block, " + f.example + ","
			}
			return "a block, " + f.hcl + " { ... },"
		}
		if f.kind == objects {
			return "a list of objects"
		}
		return "an object"
	}
	what := "a whole number"
	switch {
	case f.kind == count:
	case lang == inHCL && f.kind == size:
		what = `a size such as "64KiB"`
	case lang == inHCL:
		what = `a time such as "5s"`
	case f.kind == millis:
		what = "a whole number of milliseconds"
	case f.kind == seconds:
		what = "a whole number of seconds"
	case f.kind == size:
		what = "a whole number of bytes"
	}
	return what + f.bounds(lang)
}

// bounds tells the range of an amount: " from 1 to 8".
func (f *field) bounds(lang language) string {
	least, most := f.amount(lang, f.min), f.amount(lang, f.max)
	zero := ""
	if f.zero {
		zero = ", " + f.amount(lang, 0) + " or"
	}
	switch {
	case f.min == 0 && (f.max == 0 || f.clamp):
		return ""
	case f.max == 0 || f.clamp && lang == inJSON:
		return zero + " from " + least + " up"
	default:
		return zero + " from " + least + " to " + most
	}
}

// amount writes v, which is a count, bytes or milliseconds, as the language
// does.
func (f *field) amount(lang language, v uint64) string {
	switch {
	case f.kind == count:
	case f.kind == size:
		if lang == inHCL {
			return sizeText(v)
		}
	case lang == inHCL:
		return timeText(time.Duration(min(v, maxMillis)) * time.Millisecond)
	case f.kind == seconds:
		return strconv.FormatUint((v+999)/1000, 10)
	}
	return strconv.FormatUint(v, 10)
}

func (f *field) parseText(n *node) (any, *mismatch) {
	if n.kind != textNode {
		return nil, f.wrong(inBoth, n)
	}
	value := n.text
	if f.trim {
		value = strings.TrimSpace(value)
	}
	if f.filled && strings.TrimSpace(value) == "" {
		return nil, &mismatch{"is blank", "a text that is not blank is expected"}
	}
	return value, nil
}

func (f *field) parseWord(n *node) (any, *mismatch) {
	if n.kind != textNode || !slices.Contains(f.values, n.text) {
		return nil, f.wrong(inBoth, n)
	}
	return n.text, nil
}

func (f *field) parseList(n *node) (any, *mismatch) {
	if n.kind != listNode {
		return nil, f.wrong(inBoth, n)
	}
	var list []string
	for _, item := range n.items {
		switch {
		case item.kind != textNode || f.kind == enums && !slices.Contains(f.values, item.text):
			return nil, &mismatch{"holds " + item.describe(), f.expected(inBoth) + " is expected"}
		case f.kind == enums && slices.Contains(list, item.text):
			return nil, &mismatch{"repeats " + quote(item.text), "each may be given once"}
		}
		list = append(list, item.text)
	}
	if f.kind == enums && len(list) == 0 {
		return nil, &mismatch{"is empty", f.expected(inBoth) + " is expected"}
	}
	return list, nil
}

func (f *field) parseLabels(n *node) (any, *mismatch) {
	if n.kind != objectNode || n.block {
		return nil, f.wrong(inBoth, n)
	}
	values := map[string]string{}
	for _, m := range n.members {
		if m.value.kind != textNode {
			return nil, &mismatch{"has " + m.value.describe() + " for " + quote(m.name), f.expected(inBoth) + " is expected"}
		}
		values[m.name] = m.value.text
	}
	return values, nil
}

func (f *field) parseChain(lang language, n *node) (any, *mismatch) {
	digits := strings.TrimSpace(n.text)
	id, err := hex.DecodeString(digits)
	if n.kind != textNode || err != nil || len(id) != 32 {
		return nil, f.wrong(lang, n)
	}
	return [32]byte(id), nil
}

// parseAmount reads a count, a time or a size. The value has the unit of the
// kind's Go type: time.Duration, int64 bytes, or uint64.
func (f *field) parseAmount(lang language, n *node) (any, *mismatch) {
	v, ok := f.read(lang, n)
	if !ok {
		return nil, f.wrong(lang, n)
	}
	most := f.max
	if most == 0 {
		most = math.MaxUint32
	}
	if f.clamp && lang == inJSON {
		v = min(v, most)
	}
	if (v < f.min || v > most) && !(f.zero && v == 0) {
		return nil, f.wrong(lang, n)
	}
	switch f.kind {
	case count:
		return v, nil
	case size:
		return int64(v), nil
	default:
		return time.Duration(v) * time.Millisecond, nil
	}
}

// read returns a count, bytes or milliseconds.
func (f *field) read(lang language, n *node) (uint64, bool) {
	if n.kind == textNode && lang == inHCL {
		switch f.kind {
		case size:
			return parseSize(n.text)
		case millis, seconds:
			d, err := time.ParseDuration(n.text)
			return uint64(d / time.Millisecond), err == nil && d >= 0 && d%time.Millisecond == 0
		}
	}
	if n.kind != numberNode || lang == inHCL && (f.kind == millis || f.kind == seconds) {
		return 0, false
	}
	v, err := strconv.ParseUint(n.text, 10, 64)
	if f.kind == seconds {
		v = min(v, math.MaxUint64/1000) * 1000
	}
	return v, err == nil
}

var sizeUnits = []struct {
	name  string
	bytes uint64
}{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}, {"B", 1},
}

// parseSize reads a whole number with a unit, "256MiB".
func parseSize(written string) (uint64, bool) {
	for _, unit := range sizeUnits {
		digits, ok := strings.CutSuffix(written, unit.name)
		if !ok {
			continue
		}
		v, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 64)
		return v * unit.bytes, err == nil && v <= math.MaxUint64/unit.bytes
	}
	return 0, false
}

// sizeText writes bytes in the largest binary unit that leaves no rest.
func sizeText(v uint64) string {
	for _, unit := range sizeUnits[:3] {
		if v > 0 && v%unit.bytes == 0 {
			return strconv.FormatUint(v/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatUint(v, 10) + "B"
}

// timeText writes a time without the zero units that Duration.String has at
// its end: "1m", not "1m0s".
func timeText(d time.Duration) string {
	written := d.String()
	if strings.HasSuffix(written, "m0s") {
		written = strings.TrimSuffix(written, "0s")
	}
	if strings.HasSuffix(written, "h0m") {
		written = strings.TrimSuffix(written, "0m")
	}
	return written
}

func quoted(words []string) string {
	var out []string
	for _, w := range words {
		out = append(out, strconv.Quote(w))
	}
	return strings.Join(out, ", ")
}

// plural is "1 server" or "2 servers".
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
