package config

import (
	"bytes"
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Problem is one thing that is wrong with a configuration, and where.
type Problem struct {
	// File is the path as it was given to Load.
	File string
	// Line and Column count from 1, the column in characters.
	Line, Column int
	// Message names the field and what is wrong with it.
	Message string
	// Hint is what would be right; it may be empty.
	Hint string
	// SourceLine is the line of the file, without passwords and tokens, and
	// shortened around the column when it is long.
	SourceLine string
	// caret is the column inside SourceLine, from 0.
	caret int
}

// Warning is a Problem that does not keep the configuration from being used.
type Warning = Problem

// String is the problem on one line, without the source line.
func (p Problem) String() string {
	text := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	return text
}

func (p Problem) appendTo(b *strings.Builder) {
	fmt.Fprintf(b, "%s:%d:%d: %s\n", p.File, p.Line, p.Column, p.Message)
	if strings.TrimSpace(p.SourceLine) != "" {
		number := fmt.Sprintf("%5d", p.Line)
		fmt.Fprintf(b, "%s | %s\n", number, p.SourceLine)
		fmt.Fprintf(b, "%s | %s^\n", strings.Repeat(" ", len(number)), blank(p.SourceLine, p.caret))
	}
	if p.Hint != "" {
		fmt.Fprintf(b, "        %s\n", p.Hint)
	}
}

// blank is as wide as the first n characters of line.
func blank(line string, n int) string {
	var b strings.Builder
	for _, r := range line {
		if n--; n < 0 {
			break
		}
		if r != '\t' {
			r = ' '
		}
		b.WriteRune(r)
	}
	return b.String()
}

// InvalidError holds everything that is wrong with a configuration.
type InvalidError struct {
	// Path is what was to be loaded.
	Path string
	// Problems are in the order of the files and their lines, at least one.
	Problems []Problem
}

// maxShown bounds how many problems Error prints.
const maxShown = 50

// Error prints every problem: file, line, column and message, the line itself,
// and what would be right.
func (e *InvalidError) Error() string {
	var b strings.Builder
	count := "1 problem"
	if len(e.Problems) != 1 {
		count = fmt.Sprintf("%d problems", len(e.Problems))
	}
	fmt.Fprintf(&b, "the configuration %s is not valid: %s\n", e.Path, count)
	for _, p := range e.Problems[:min(len(e.Problems), maxShown)] {
		b.WriteByte('\n')
		p.appendTo(&b)
	}
	if more := len(e.Problems) - maxShown; more > 0 {
		fmt.Fprintf(&b, "\nand %d more\n", more)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// source is one file that was read.
type source struct {
	name string
	text []byte
	// starts are the offsets of the lines.
	starts []int
	// order is the position of the file among those read together.
	order int
}

func newSource(name string, text []byte, order int) *source {
	s := &source{name: name, text: text, order: order, starts: []int{0}}
	for i, c := range text {
		if c == '\n' {
			s.starts = append(s.starts, i+1)
		}
	}
	return s
}

// place is where something stands in a file.
type place struct {
	src          *source
	line, column int
}

// at is the place of a byte offset.
func (s *source) at(offset int) place {
	offset = min(max(offset, 0), len(s.text))
	line, found := slices.BinarySearch(s.starts, offset)
	if !found {
		line--
	}
	return place{s, line + 1, utf8.RuneCount(s.text[s.starts[line]:offset]) + 1}
}

func (s *source) line(n int) string {
	if n < 1 || n > len(s.starts) {
		return ""
	}
	text := s.text[s.starts[n-1]:]
	if i := bytes.IndexByte(text, '\n'); i >= 0 {
		text = text[:i]
	}
	return strings.TrimSuffix(strings.ToValidUTF8(string(text), "?"), "\r")
}

func (p place) problem(message, hint string) Problem {
	line, caret := cut(mask(p.src.line(p.line)), p.column-1)
	return Problem{File: p.src.name, Line: p.line, Column: p.column, Message: message, Hint: hint, SourceLine: line, caret: caret}
}

// maxLine is how many characters of a line are shown.
const maxLine = 120

// cut shortens a line around a column.
func cut(line string, column int) (string, int) {
	runes := []rune(line)
	column = min(max(column, 0), len(runes))
	if len(runes) <= maxLine {
		return line, column
	}
	from := max(0, min(column-maxLine/2, len(runes)-maxLine))
	return string(runes[from : from+maxLine]), column - from
}

var (
	secretField = regexp.MustCompile(`control_token"?\s*[=:]\s*"((?:[^"\\]|\\.)*)`)
	secretUser  = regexp.MustCompile(`//([^/@"\s]+)@`)
)

// mask hides tokens and passwords and keeps the columns.
func mask(line string) string {
	for _, secret := range []*regexp.Regexp{secretField, secretUser} {
		for _, m := range secret.FindAllStringSubmatchIndex(line, -1) {
			hidden := strings.Repeat("*", utf8.RuneCountInString(line[m[2]:m[3]]))
			// The text keeps its length in bytes only while it is ASCII.
			if len(hidden) != m[3]-m[2] {
				hidden = strings.Repeat("*", m[3]-m[2])
			}
			line = line[:m[2]] + hidden + line[m[3]:]
		}
	}
	return line
}

// report collects what is wrong while files are read and checked.
type report struct {
	problems, warnings []placed
}

type placed struct {
	at place
	Problem
}

func (r *report) problem(at place, message, hint string) {
	r.problems = append(r.problems, placed{at, at.problem(message, hint)})
}

func (r *report) warn(at place, message, hint string) {
	r.warnings = append(r.warnings, placed{at, at.problem(message, hint)})
}

// inOrder sorts by file, line and column.
func inOrder(list []placed) []Problem {
	slices.SortStableFunc(list, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.at.src.order, b.at.src.order), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	var out []Problem
	for _, p := range list {
		out = append(out, p.Problem)
	}
	return out
}

// MaskUser hides what an endpoint has in front of its @, for display.
func MaskUser(endpoint string) string { return secretUser.ReplaceAllString(endpoint, "//***@") }
