package config

import "strconv"

type nodeKind int

const (
	// brokenNode stands for a value that has been complained about already.
	brokenNode nodeKind = iota
	nullNode
	textNode
	numberNode
	flagNode
	listNode
	objectNode
)

// node is one value of a document. Both languages are read into nodes, so that
// one schema decodes them.
type node struct {
	at   place
	kind nodeKind
	// text is that of a text, or the digits of a number.
	text string
	flag bool
	// items are those of a list.
	items []*node
	// members are those of an object, in file order, with duplicates.
	members []member
	// block is true for an HCL block, whose labels are texts.
	block  bool
	labels []*node
	// raw is the inside of an opaque block, which has no members here.
	raw *raw
}

type member struct {
	name  string
	at    place
	value *node
}

// member is the value of the first member of that name, nil when there is
// none.
func (n *node) member(name string) *node {
	for _, m := range n.members {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

// describe names the value for a message.
func (n *node) describe() string {
	switch {
	case n.block:
		return "a block"
	case n.kind == nullNode:
		return "null"
	case n.kind == textNode:
		return "the text " + quote(n.text)
	case n.kind == numberNode:
		return shorten(n.text)
	case n.kind == flagNode:
		return strconv.FormatBool(n.flag)
	case n.kind == listNode:
		return "a list"
	default:
		return "an object"
	}
}

// quote is the text in quotes, without passwords, shortened.
func quote(text string) string { return strconv.Quote(shorten(mask(text))) }

func shorten(text string) string {
	const most = 80
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return text
}
