// Package nodeos runs the product in front of real Antelope nodes.
//
// It holds a launcher for nodeos on loopback, a strict SHiP client, a runner
// for the product's own binary, and the tests that use them. The launcher is
// also what tests/clients starts its nodes with. All of it is behind the build
// tag nodeos, since the node program has to be installed first:
//
//	bash tests/nodeos/install.sh
//	go test -tags nodeos ./tests/nodeos
package nodeos
