//go:build unix

package tlsfiles

import (
	"path/filepath"
	"syscall"
	"testing"
)

// To open a named pipe would block every dial.
func TestTrustSkipsPipes(t *testing.T) {
	ca := newAuthority(t)
	dir := t.TempDir()
	must(t, syscall.Mkfifo(filepath.Join(dir, "a"), 0o600))
	write(t, filepath.Join(dir, "b"), ca.pem)
	if err := accepts(t, environment(t, "", dir), "node.test", serves(t, ca, "node.test")); err != nil {
		t.Error(err)
	}
}
