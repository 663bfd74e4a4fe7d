// Package clients runs client libraries from npm through the product, in front
// of real nodes, while a relay is killed. It is behind the build tag nodeos;
// the node program and the libraries have to be installed first:
//
//	bash tests/nodeos/install.sh
//	bash tests/clients/install.sh
//	go test -tags nodeos ./tests/clients
package clients
