package chainapi

import "bytes"

// Class is what kind of request a target is (seed 003 "Endpoints").
type Class string

// The classes, as metrics label them. Those up to Push are forwarded.
const (
	Block Class = "block"
	Info  Class = "info"
	State Class = "state"
	Exec  Class = "exec"
	Push  Class = "push"
	// Node is what the port answers itself.
	Node Class = "node"
	// Denied is a target that nodeos would not know.
	Denied Class = "denied"
	// Invalid is a target that is no path.
	Invalid Class = "invalid"
)

// Classes are all of them, in the order of the documents.
var Classes = []Class{Block, Info, State, Exec, Push, Node, Denied, Invalid}

const (
	chainPrefix   = "/v1/chain/"
	supportedPath = "/v1/node/get_supported_apis"

	infoPath        = chainPrefix + "get_info"
	blockPath       = chainPrefix + "get_block"
	blockInfoPath   = chainPrefix + "get_block_info"
	headerPath      = chainPrefix + "get_block_header"
	headerStatePath = chainPrefix + "get_block_header_state"
	rawBlockPath    = chainPrefix + "get_raw_block"
)

// endpoints are the chain endpoints that are no state calls, by name.
var endpoints = map[string]Class{
	"get_block_info":             Block,
	"get_block_header":           Block,
	"get_raw_block":              Block,
	"get_block":                  Block,
	"get_block_header_state":     Block,
	"get_info":                   Info,
	"compute_transaction":        Exec,
	"send_read_only_transaction": Exec,
	"push_transaction":           Push,
	"push_transactions":          Push,
	"send_transaction":           Push,
	"send_transaction2":          Push,
	"push_block":                 Denied,
}

// decode is the class of a request, whatever allow says. Targets match exactly,
// as on nodeos, and any method is as good as any other but OPTIONS.
func decode(method, target []byte) Class {
	if len(target) == 0 || target[0] != '/' || bytes.Contains(target, []byte("..")) {
		return Invalid
	}
	if string(method) == "OPTIONS" || string(target) == supportedPath {
		return Node
	}
	return classOf(target)
}

// classOf is the class of a path without regard to the method.
func classOf(path []byte) Class {
	name, ok := bytes.CutPrefix(path, []byte(chainPrefix))
	if !ok || len(name) == 0 {
		return Denied
	}
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return Denied
		}
	}
	if class, ok := endpoints[string(name)]; ok {
		return class
	}
	return State
}

// path is a target without the fragment, which never belongs in one.
func path(target []byte) []byte {
	before, _, _ := bytes.Cut(target, []byte("#"))
	return before
}

// claimable reports whether an archive's claim to a block means that the block
// exists for that endpoint (seed 003 "Block requests").
func claimable(path []byte) bool {
	return string(path) == blockInfoPath || string(path) == headerPath || string(path) == rawBlockPath
}
