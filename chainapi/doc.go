// Package chainapi is the nodeos-compatible HTTP port: one port that answers as
// one nodeos with the whole history of a fleet.
//
// The files follow the way of a request. decode.go and body.go say what is
// asked, plan.go who could answer, select.go who of them first, forward.go what
// happens until there is an answer, and rewrite.go what reads differently then.
// Those are rules without sockets. conn.go and client.go are the two ends of
// the wire; monitor.go, probe.go and verify.go find out about the nodes.
//
// # HTTP
//
// The heads of requests and answers are read by fasthttp, which keeps the raw
// target and costs a quarter of net/http. Its server and client are not used,
// because they cannot keep what the documents promise: the server answers a
// request that is too slow with 408 instead of closing, sends a body of known
// length only when it is whole or its buffer full, gives a whole answer one
// deadline instead of one for each step, and closes so soon after 413 that the
// client may miss it. The client has one deadline for head and body, and does
// not tell a connection that could not be made from one that was lost, which
// decides whether an exec call may be sent again.
package chainapi
