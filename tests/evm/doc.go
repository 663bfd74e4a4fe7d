// Package evm tests EVM listeners as a whole: the product with a configuration,
// in front of simulated nodes, with clients on real sockets.
package evm
