package datastore

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/dsn"
	"github.com/a4s-io/a4s/internal/problem"
)

// Record is what a server directory remembers of a datastore that is not
// embedded etcd. It holds no secret.
type Record struct {
	Kind dsn.Kind `json:"kind"`
	// Where shows which one it was.
	Where string `json:"where"`
	// Cluster is what the datastore has under clusterKey, once Claimed.
	Cluster string `json:"cluster"`
	Claimed bool   `json:"claimed"`
}

// databaseDir is where local datastores are, below the server directory.
const databaseDir = "db"

func recordFile(serverDir string) string {
	return filepath.Join(serverDir, databaseDir, "datastore.json")
}

// ReadRecord returns what the server directory remembers. For embedded etcd,
// which is its own record, and before the first start that is only the kind.
func ReadRecord(serverDir string) (*Record, error) {
	path := recordFile(serverDir)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(serverDir, databaseDir, "etcd", "member")); err == nil {
			return &Record{Kind: dsn.Embedded, Where: dsn.Embedded.Title()}, nil
		}
		return &Record{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading which datastore the server has: %w", err)
	}
	r := &Record{}
	if err := json.Unmarshal(data, r); err != nil || r.Kind == "" {
		return nil, &problem.Precondition{
			What: path,
			Err:  errors.Join(errors.New("it does not say which datastore the server has"), err),
			Fix:  "restore the file from a backup of the server directory",
		}
	}
	return r, nil
}

// CheckRecord refuses a server directory that had another kind of datastore:
// the objects would seem to be lost. It changes nothing.
func CheckRecord(serverDir string, e *dsn.Endpoint) error {
	r, err := ReadRecord(serverDir)
	if err != nil || r.Kind == "" || r.Kind == e.Kind {
		return err
	}
	had := "--datastore-endpoint of " + r.Where
	if r.Kind == dsn.Embedded {
		had = "no --datastore-endpoint"
	}
	return &problem.Precondition{
		What: "datastore of " + serverDir,
		Err: fmt.Errorf("it has been %s so far, and now it is to be %s; nothing is copied from one to the other",
			r.Where, e),
		Fix: fmt.Sprintf("start with what it had (%s), or move %s away to begin a new and empty cluster",
			had, serverDir),
	}
}

func (r *Record) write(serverDir string) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := recordFile(serverDir)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making the directory of the datastore: %w", err)
	}
	if err := atomicfile.Update(path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing which datastore the server has: %w", err)
	}
	return nil
}

// MembersFile is where a server without a member of embedded etcd keeps where those of
// the others are.
func MembersFile(serverDir string) string {
	return filepath.Join(serverDir, databaseDir, "members.json")
}

// UsesMembers reports whether the server has used the embedded etcd of others.
func UsesMembers(serverDir string) (bool, error) {
	_, err := os.Stat(MembersFile(serverDir))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// ForgetMembers makes a server one that has not.
func ForgetMembers(serverDir string) error {
	if err := os.Remove(MembersFile(serverDir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("forgetting where the datastore was: %w", err)
	}
	return nil
}

// OnlyEmbedded refuses a snapshot of a datastore that has its own tools for
// that, or that is on other machines.
func OnlyEmbedded(serverDir string) error {
	uses, err := UsesMembers(serverDir)
	switch {
	case err != nil:
		return err
	case uses:
		return &problem.Precondition{What: "datastore of this server",
			Err: errors.New("it is that of other servers: this one has no member of it (--disable-etcd)"),
			Fix: "run the command on a server that has one; `a4s etcd-member list` names them"}
	}
	r, err := ReadRecord(serverDir)
	if err != nil || r.Kind == "" || r.Kind == dsn.Embedded {
		return err
	}
	fix := "back it up with its own tools, and " + serverDir + " with it"
	if r.Kind == dsn.SQLite {
		fix = "stop the server and copy " + serverDir + " and that file"
	}
	return &problem.Precondition{What: "datastore of this server",
		Err: fmt.Errorf("it is %s, and snapshots are of embedded etcd only", r.Where), Fix: fix}
}
