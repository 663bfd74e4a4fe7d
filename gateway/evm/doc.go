// Package evm serves EVM JSON-RPC over HTTP and WebSocket in front of a fleet
// of nodes (seed 004): it watches how high each node is, keeps those in the
// pool that are in the health band, and sends each call to one that can answer
// it.
//
// The way of a request is: decode (package jsonrpc), plan and select
// (choose.go), forward (forward.go), rewrite (head.go). What is known of the
// fleet is a View; see fleet.go.
package evm
