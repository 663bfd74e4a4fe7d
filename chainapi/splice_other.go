//go:build !linux

package chainapi

// splice reports that the kernel has no such way.
func (c *conn) splice(*response, func()) (done bool, err error) { return false, nil }
