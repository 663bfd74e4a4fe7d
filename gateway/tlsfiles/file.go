package tlsfiles

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// maxFileBytes is far above any bundle of certificates.
const maxFileBytes = 16 << 20

// readFile returns the content of a file. Its errors do not name the path. What
// is not a regular file is refused: reading a named pipe could block for ever.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, unreadable(err)
	}
	if err := readable(info); err != nil {
		return nil, err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, unreadable(err)
	}
	return data, nil
}

func readable(info fs.FileInfo) error {
	switch {
	case info.IsDir():
		return errors.New("is a directory, not a file")
	case !info.Mode().IsRegular():
		return errors.New("is not a regular file")
	case info.Size() > maxFileBytes:
		return fmt.Errorf("is too large: %d bytes, at most %d are read", info.Size(), maxFileBytes)
	}
	return nil
}

// unreadable keeps the cause but not the path, which the caller names itself.
func unreadable(err error) error {
	if pathErr, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathErr.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}
