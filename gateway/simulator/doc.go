// Package simulator makes SHiP nodes that need no blockchain: a Chain that is
// made up from a seed, Nodes that serve it the way nodeos does (spec "ship"
// 1.7 and 1.8) and misbehave on command, and a Client that notices whatever a
// correct endpoint would never send. The commands demo and sim and the
// whole-product tests are built on it.
//
// Everything runs on real TCP as well as on an in-memory Network inside a
// testing/synctest bubble. Make a Chain, its Nodes and Clients inside the bubble
// that uses them.
package simulator
