package membership

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/problem"
)

// path is the file in the server's directory. There is none in the home partition.
func path(dir string) string { return filepath.Join(dir, "partition.json") }

// Read returns what a server knows of its partition, nil in the home partition.
func Read(dir string) (*joinapi.Membership, error) {
	data, err := os.ReadFile(path(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	m := &joinapi.Membership{}
	if err == nil {
		err = json.Unmarshal(data, m)
	}
	if err == nil && (m.Name == "" || m.Identity == "") {
		err = errors.New("it names no partition")
	}
	if err != nil {
		return nil, &problem.Precondition{What: "file " + path(dir), Err: err,
			Fix: "restore it from a backup, or copy it from another server of the partition"}
	}
	return m, nil
}

// Write keeps it.
func Write(dir string, m *joinapi.Membership) error {
	data, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.Write(path(dir), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing what the server knows of its partition: %w", err)
	}
	return nil
}
