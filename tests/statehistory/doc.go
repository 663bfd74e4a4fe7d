// Package statehistory reads the history that a real nodeos leaves in its
// folders, and serves a fixed range of it as an archive (a frozen range server)
// that does all of seed 000 "What an archive upstream must do". It is for tests:
// with it the product gets real input where a real archive would stand.
//
// What it reads is what Leap 4 wrote in front of our eyes: state-history logs of
// version 0, whole or pruned, and block logs of version 3, in one file or in the
// parts that state-history-stride and blocks-log-stride make. Anything else is
// refused with an error that names the file and the block.
package statehistory
