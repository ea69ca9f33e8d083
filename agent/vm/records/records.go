package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/a4s-io/a4s/internal/atomicfile"
)

const suffix = ".json"

// Dir is a directory of records of one kind, by their id.
type Dir[T any] struct{ path string }

// Open returns the directory at path, which it makes if need be.
func Open[T any](path string) (Dir[T], error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return Dir[T]{}, fmt.Errorf("directory of records: %w", err)
	}
	return Dir[T]{path}, nil
}

// Put writes a record, or replaces it.
func (d Dir[T]) Put(id string, record *T) error {
	data, err := json.Marshal(record)
	if err != nil {
		return fmt.Errorf("record of %s: %w", id, err)
	}
	return atomicfile.Write(d.file(id), data, 0o600)
}

// Remove removes a record if it exists.
func (d Dir[T]) Remove(id string) error {
	if err := os.Remove(d.file(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("record of %s: %w", id, err)
	}
	return nil
}

// All returns all records by their id. The error, if there is one, names those
// that could not be read; the rest is complete all the same.
func (d Dir[T]) All() (map[string]*T, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("reading records: %w", err)
	}
	all := map[string]*T{}
	var errs []error
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok || strings.HasPrefix(id, ".") { // of a write that did not end
			continue
		}
		record := new(T)
		data, err := os.ReadFile(d.file(id))
		if err == nil {
			err = json.Unmarshal(data, record)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("record of %s: %w", id, err))
			continue
		}
		all[id] = record
	}
	return all, errors.Join(errs...)
}

func (d Dir[T]) file(id string) string { return filepath.Join(d.path, id+suffix) }
