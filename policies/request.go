package policies

import "math"

// NoBlock stands for the block of a request that names none.
const NoBlock = math.MaxUint32

// Request is what a policy may know of a request. Fields that the protocol does
// not have are empty.
type Request struct {
	// Protocol is ship, chain_api or evm.
	Protocol string
	// Listener is the name of the listener.
	Listener string
	// Session numbers the sessions of the listener, or its requests where the
	// protocol has no sessions.
	Session uint64
	// Client is the client's address, without the port.
	Client string
	// Headers are those that the policy asked for (HeaderUser), by lower-case
	// name; nil is none.
	Headers map[string]string
	// Dry: somebody asks what would happen. Nothing is remembered of it.
	Dry bool
	// Notes are what a policy has to tell of a dry question besides its order,
	// each the rest of a sentence about its script.
	Notes []string

	// Start is the first block that is still to be served and End the end,
	// exclusive; both NoBlock when the request names no block.
	Start, End uint64

	// Of SHiP: the logs asked for, and irreversible blocks only.
	Traces, Deltas, Finality, Irreversible bool
	// Of the chain API: the class of the request (block, info, state, exec,
	// push) and its path.
	Class, Path string
	// Of EVM: the methods of the body, in its order.
	Methods []string
}
