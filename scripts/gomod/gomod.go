package gomod

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"strings"
)

// Kubernetes is the module that all others are chosen for.
const Kubernetes = "k8s.io/kubernetes"

// File is what the go command says of a go.mod.
type File struct {
	Go      string
	Require []Module
	Replace []struct{ Old, New Module }
	Exclude []Module
	Tool    []struct{ Path string }
}

// Module is a version of one. Only requirements say whether they are indirect.
type Module struct {
	Path, Version string
	Indirect      bool
}

// Requires is the version of a module that f requires, "" for none.
func (f *File) Requires(path string) string {
	for _, r := range f.Require {
		if r.Path == path {
			return r.Version
		}
	}
	return ""
}

// Files are the paths of those of the sources, whose directory is the current one.
func Files(ctx context.Context) ([]string, error) {
	out, err := Output(ctx, ".", "git", "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		return nil, fmt.Errorf("looking for the modules (run it in the directory of the sources): %w", err)
	}
	return strings.Fields(string(out)), nil
}

// Read reads one.
func Read(ctx context.Context, path string) (*File, error) {
	raw, err := Output(ctx, ".", "go", "mod", "edit", "-json", path)
	if err != nil {
		return nil, err
	}
	f := &File{}
	if err := json.Unmarshal(raw, f); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	return f, nil
}

// Output runs a command and returns what it prints, also if it fails. What it says
// on standard error is in the error.
func Output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(said.String()))
	}
	return out, err
}
