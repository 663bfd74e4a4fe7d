package statehistory

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"flotilla/gateway/ship"
)

// part is one file of a log that may be split over several.
type part interface {
	// Name is the path of the file.
	Name() string
	Range() ship.Range
	Close() error
}

// parts are the files of one log in the order of their blocks, without a hole
// and without an overlap.
type parts[T part] []T

// openParts opens all files of the log called name in some folders, which are
// those that nodeos keeps them in: the log's own, retained and archived. That
// there is none is no error.
func openParts[T part](name string, dirs []string, open func(path string) (T, error)) (p parts[T], err error) {
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	pattern := regexp.MustCompile(`^` + regexp.QuoteMeta(name) + `(?:-(\d+)-(\d+))?\.log$`)
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return p, err
		}
		for _, e := range entries {
			match := pattern.FindStringSubmatch(e.Name())
			if match == nil {
				continue
			}
			one, err := open(filepath.Join(dir, e.Name()))
			if err != nil {
				return p, err
			}
			p = append(p, one)
			if err := checkName(one, match[1], match[2]); err != nil {
				return p, err
			}
		}
	}
	slices.SortFunc(p, func(a, b T) int { return cmp.Compare(a.Range().Begin, b.Range().Begin) })
	for len(p) > 0 && p[0].Range().Empty() {
		if err := p[0].Close(); err != nil {
			return p[1:], err
		}
		p = p[1:]
	}
	for i := 1; i < len(p); i++ {
		before, r := p[i-1].Range(), p[i].Range()
		if before.End != r.Begin {
			return p, fmt.Errorf("%s ends before block %d, but %s, which is the next, begins with %d",
				p[i-1].Name(), before.End, p[i].Name(), r.Begin)
		}
	}
	return p, nil
}

// checkName compares the first and last block in the name of a file that was
// split off with what is in it.
func checkName(one part, first, last string) error {
	r := one.Range()
	if first == "" {
		return nil
	}
	begin, err1 := strconv.ParseUint(first, 10, 32)
	end, err2 := strconv.ParseUint(last, 10, 32)
	if err1 != nil || err2 != nil || uint32(begin) != r.Begin || uint32(end)+1 != r.End {
		return fmt.Errorf("%s holds the blocks [%d,%d), which is not what its name says", one.Name(), r.Begin, r.End)
	}
	return nil
}

// Range is the blocks of all parts.
func (p parts[T]) Range() ship.Range {
	if len(p) == 0 {
		return ship.Range{}
	}
	return ship.Range{Begin: p[0].Range().Begin, End: p[len(p)-1].Range().End}
}

// at is the part that has block n.
func (p parts[T]) at(n uint32) (one T, ok bool) {
	i, found := slices.BinarySearchFunc(p, n, func(one T, n uint32) int {
		switch r := one.Range(); {
		case r.End <= n:
			return -1
		case r.Begin > n:
			return 1
		}
		return 0
	})
	if !found {
		return one, false
	}
	return p[i], true
}

// Close closes all files.
func (p parts[T]) Close() error {
	var errs []error
	for _, one := range p {
		errs = append(errs, one.Close())
	}
	return errors.Join(errs...)
}
