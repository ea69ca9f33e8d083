package restored

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/problem"
)

// fileName is the file in the server directory.
const fileName = "restored.json"

// Record says what became of a restore.
type Record struct {
	// At is when it was, in UTC, so that a later one is greater. It is empty without one.
	At string `json:"at,omitempty"`
	// Shares says that what pods of all partitions take of the nodes is not known yet.
	Shares bool `json:"shares,omitempty"`
	// Shared says that this server has begun to share its nodes with other partitions.
	Shared bool `json:"shared,omitempty"`
}

// New is the record of a restore.
func New(at time.Time) Record {
	return Record{At: at.UTC().Format("2006-01-02T15:04:05.000Z"), Shares: true}
}

// Read reads the record of a server directory. It is zero if there was no restore.
func Read(dir string) (Record, error) {
	path := filepath.Join(dir, fileName)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, nil
	}
	var r Record
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err != nil {
		return Record{}, &problem.Precondition{What: "file " + path, Err: err,
			Fix: `write {"at": "TIME", "shares": true} to it, with the time of the restore`}
	}
	return r, nil
}

// Write keeps it.
func (r Record) Write(dir string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(dir, fileName), append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing the record of the restore: %w", err)
	}
	return nil
}

// SharesKnown takes note that the shares of nodes are known again, and whether there are other
// partitions to share with.
func SharesKnown(dir string, shared bool) error {
	r, err := Read(dir)
	if err != nil || !r.Shares && (r.Shared || !shared) {
		return err
	}
	r.Shares, r.Shared = false, r.Shared || shared
	return r.Write(dir)
}
