package release

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/version"
)

// Record says which release has used the data of a server last.
type Record struct {
	// Version is that of a4s, Kubernetes that of its Kubernetes.
	Version    string `json:"version"`
	Kubernetes string `json:"kubernetes"`
	// Before is where what the data were before is, "" if they were not saved.
	Before string `json:"before,omitempty"`
}

// Own is the record of this build.
func Own() Record { return Record{Version: version.Version, Kubernetes: version.Kubernetes} }

func (r Record) String() string {
	if r.Version == "" {
		return "an a4s that did not say so"
	}
	return fmt.Sprintf("a4s %s with Kubernetes %s", r.Version, r.Kubernetes)
}

// minor is the minor version of a Kubernetes, false if there is none in it.
func minor(kubernetes string) (int, bool) {
	rest, ok := strings.CutPrefix(kubernetes, "v1.")
	number, _, _ := strings.Cut(rest, ".")
	n, err := strconv.Atoi(number)
	return n, ok && err == nil
}

// NewerThan reports whether data that r has used are not for other any more.
func (r Record) NewerThan(other Record) bool {
	a, known := minor(r.Kubernetes)
	b, otherKnown := minor(other.Kubernetes)
	return known && otherKnown && a > b
}

// file is that of the record. It is beside the datastore, which snapshots have in
// a form of their own.
func file(serverDir string) string { return filepath.Join(serverDir, "db", "release.json") }

// Read returns the record of a server directory, an empty one if there is none.
func Read(serverDir string) (Record, error) {
	var r Record
	data, err := os.ReadFile(file(serverDir))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("reading which a4s has used the data: %w", err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, &problem.Precondition{What: file(serverDir),
			Err: fmt.Errorf("it does not say which a4s has used the data: %w", err),
			Fix: "remove the file if no newer a4s has run here"}
	}
	return r, nil
}

// Write puts a record into a server directory.
func Write(serverDir string, r Record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := file(serverDir)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("making the directory of the datastore: %w", err)
	}
	if err := atomicfile.Update(path, append(data, '\n'), 0o600); err != nil {
		return fmt.Errorf("writing which a4s uses the data: %w", err)
	}
	return nil
}

// Check refuses data that a newer release has used. It changes nothing.
func Check(serverDir string, own Record) error {
	last, err := Read(serverDir)
	if err != nil || !last.NewerThan(own) {
		return err
	}
	fix := "start that a4s again, or restore what you saved before it was first started"
	switch {
	case snapshotName(last.Before) != "":
		fix = "start that a4s again, or go back to what was here before: a4s etcd-snapshot restore " +
			snapshotName(last.Before)
	case last.Before != "":
		fix = fmt.Sprintf("start that a4s again, or go back to what was here before: "+
			"move the file of the database away, %s into its place, and remove %s", last.Before, file(serverDir))
	}
	return &problem.Precondition{
		What: "data of this server in " + serverDir,
		Err:  fmt.Errorf("%s has used them, which is newer than %s; they do not go back", last, own),
		Fix:  fix,
	}
}

// snapshotName is the name of a snapshot in the directory of snapshots.
func snapshotName(before string) string {
	if name := filepath.Base(before); strings.HasSuffix(name, ".tar") || strings.HasSuffix(name, ".tar.zst") {
		return name
	}
	return ""
}

// Begin makes this release the one that uses the data of a server directory. If an
// older one has used them, save is called first; it returns where it put them, ""
// if it cannot save them. present reports whether there are data.
func Begin(serverDir string, own Record, present bool, save func(before Record) (string, error)) error {
	if _, known := minor(own.Kubernetes); !known {
		return nil
	}
	last, err := Read(serverDir)
	if err != nil {
		return err
	}
	own.Before = last.Before
	if present && (last.Version == "" || own.NewerThan(last)) {
		if own.Before, err = save(last); err != nil {
			return err
		}
	}
	return Write(serverDir, own)
}
