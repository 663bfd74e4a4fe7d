package config

import _ "embed"

//go:embed sample.hcl
var sample []byte

// Sample is a commented HCL configuration to start from. It is valid as it is.
func Sample() []byte { return append([]byte(nil), sample...) }
