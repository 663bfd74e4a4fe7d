// Package geth runs the product in front of real geth nodes, which are killed,
// started again and held back while real client libraries, ethers and viem,
// read, subscribe and send through it. It is behind the build tag geth; the
// node program and the libraries have to be installed first:
//
//	bash tests/geth/install.sh
//	go test -tags geth ./tests/geth
package geth
