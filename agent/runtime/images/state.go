package images

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
)

// state remembers imported archives by path.
type state map[string]record

// record is what an archive looked like and what it brought.
type record struct {
	Size    int64     `json:"size"`
	ModTime time.Time `json:"modTime"`
	// Images are the digests of what was imported, by reference.
	Images map[string]string `json:"images"`
}

// of says whether f is the file that was imported.
func (r record) of(f file) bool {
	return r.Size == f.size && r.ModTime.Equal(f.modTime) && len(r.Images) > 0
}

// readState reads the state file. A file that is missing or damaged means
// that everything is imported again.
func readState(path string, log *logrus.Entry) state {
	s := state{}
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return s
	}
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		log.WithError(err).WithField("file", path).Warn("importing all image archives again")
		return state{}
	}
	return s
}

// forget drops every path that is not in keep, and says whether there was one.
func (s state) forget(keep []string) bool {
	before := len(s)
	maps.DeleteFunc(s, func(path string, _ record) bool { return !slices.Contains(keep, path) })
	return len(s) != before
}

func (s state) write(path string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the imported archives: %w", err)
	}
	temp := filepath.Join(filepath.Dir(path), ".images.json.new")
	if err := os.WriteFile(temp, data, 0o600); err != nil {
		return fmt.Errorf("writing the imported archives: %w", err)
	}
	if err := os.Rename(temp, path); err != nil {
		return fmt.Errorf("writing the imported archives: %w", err)
	}
	return nil
}
