package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
)

// functions are those that HCL expressions may call.
var functions = map[string]function.Function{
	"env":  textFunction("name", readEnv),
	"file": textFunction("path", func(path string) (string, error) { return readText(path) }),
}

func textFunction(parameter string, call func(string) (string, error)) function.Function {
	return function.New(&function.Spec{
		Params: []function.Parameter{{Name: parameter, Type: cty.String}},
		Type:   function.StaticReturnType(cty.String),
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) {
			text, err := call(args[0].AsString())
			if err != nil {
				return cty.NilVal, err
			}
			return cty.StringVal(text), nil
		},
	})
}

func readEnv(name string) (string, error) {
	text, ok := os.LookupEnv(name)
	if !ok {
		return "", fmt.Errorf("the environment variable %s is not set", name)
	}
	return text, nil
}

// maxFile is the most bytes of one file: of a configuration, and of any file
// that it names.
const maxFile = 1 << 20

// readText reads a file that the configuration names, relative to the working
// directory. The error names the path. Only regular files are read: a pipe
// could block for ever.
func readText(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("%s cannot be read: %w", path, cause(err))
	}
	switch {
	case info.IsDir():
		return "", fmt.Errorf("%s is a folder, not a file", path)
	case !info.Mode().IsRegular():
		return "", fmt.Errorf("%s is not a regular file", path)
	case info.Size() > maxFile:
		return "", fmt.Errorf("%s has %d bytes; at most %d (1 MiB) are read", path, info.Size(), maxFile)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("%s cannot be read: %w", path, cause(err))
	}
	return string(text), nil
}

// cause is the error without the path, which the message names itself.
func cause(err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		return path.Err
	}
	return err
}
