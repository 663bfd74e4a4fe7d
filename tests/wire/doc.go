// Package wire is a network in memory whose cables can be bad: slow, narrow,
// late, cut into pieces, torn, or silent without a word. It is there for tests
// of the whole product in a testing/synctest bubble, and so are the tests in
// this folder.
//
// A Network listens and dials through a simulator.Network. Each connection is a
// Link with a Line for either direction; a test shapes them before the first
// byte (Network.OnDial) or at any time later (Network.Open). Whatever waits
// does so in the time of the bubble, and whatever is random follows from the
// seed, the address and the number of the dial. Nothing here starts a
// goroutine.
package wire
