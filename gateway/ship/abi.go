package ship

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"
	"unicode/utf8"
)

// ABI is what a node's first message told (spec "ship" 1.3).
type ABI struct {
	// Text is the message, byte for byte.
	Text []byte
	// Fingerprint is 16 hex digits that do not depend on key order or white
	// space (A3).
	Fingerprint string
	// Requests and Results are the members of the variants of those names.
	Requests, Results []string
}

// The message types of this protocol version, in variant order (W6).
var (
	requestTypes = []string{"get_status_request_v0", "get_blocks_request_v0", "get_blocks_ack_request_v0", "get_blocks_request_v1", "get_status_request_v1"}
	resultTypes  = []string{"get_status_result_v0", "get_blocks_result_v0", "get_blocks_result_v1", "get_status_result_v1"}
)

// ParseABI checks that text is a SHiP ABI (A2) and reads from it what the
// gateway uses. It keeps text.
func ParseABI(text []byte) (*ABI, error) {
	if bytes.IndexByte(text, 0) >= 0 {
		return nil, errors.New("the ABI holds a NUL byte")
	}
	if !utf8.Valid(text) {
		return nil, errors.New("the ABI is no UTF-8")
	}
	var doc struct {
		Version  string `json:"version"`
		Variants []struct {
			Name  string   `json:"name"`
			Types []string `json:"types"`
		} `json:"variants"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("the ABI is no JSON of the expected shape: %w", err)
	}
	if !strings.HasPrefix(doc.Version, "eosio::abi/1.") && !strings.HasPrefix(doc.Version, "eosio::abi/2.") && !strings.HasPrefix(doc.Version, "sysio::abi/1.") {
		return nil, fmt.Errorf("the ABI has version %q; eosio::abi/1.x, eosio::abi/2.x or sysio::abi/1.x is expected", doc.Version)
	}
	a := &ABI{Text: text, Fingerprint: Fingerprint(text)}
	for _, v := range doc.Variants {
		switch v.Name {
		case "request":
			a.Requests = v.Types
		case "result":
			a.Results = v.Types
		}
	}
	return a, nil
}

// Compatible reports whether both variants are non-empty prefixes of those of
// this protocol version (W6). A node that is not is warned of, not refused.
func (a *ABI) Compatible() bool {
	return isPrefix(a.Requests, requestTypes) && isPrefix(a.Results, resultTypes)
}

// Knows reports whether the node understands a request type. A node drops the
// connection on one that it does not know, so the ABI is asked first.
func (a *ABI) Knows(request string) bool {
	for _, t := range a.Requests {
		if t == request {
			return true
		}
	}
	return false
}

func isPrefix(list, of []string) bool {
	if len(list) == 0 || len(list) > len(of) {
		return false
	}
	for i, t := range list {
		if t != of[i] {
			return false
		}
	}
	return true
}

// Fingerprint is the 64-bit FNV-1a of the compact form of the JSON with keys
// sorted, or of the bytes when they are no JSON, as 16 hex digits (A3).
func Fingerprint(text []byte) string {
	h := fnv.New64a()
	if canonical, err := canonicalJSON(text); err == nil {
		h.Write(canonical)
	} else {
		h.Write(text)
	}
	return fmt.Sprintf("%016x", h.Sum64())
}

// plainSeparators undoes an escape that encoding/json always makes and others
// never do. The first pair keeps it from an escaped backslash.
var plainSeparators = strings.NewReplacer(`\\`, `\\`, `\u2028`, "\u2028", `\u2029`, "\u2029")

func canonicalJSON(text []byte) ([]byte, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("no UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the JSON value")
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return []byte(plainSeparators.Replace(strings.TrimSuffix(b.String(), "\n"))), nil
}
