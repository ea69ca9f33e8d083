package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// module is what the go command tells of a go.mod.
type module struct {
	Require []requirement
	Replace []struct{ Old, New requirement }
}

type requirement struct{ Path, Version string }

// requires is the version of a module that m requires, "" for none.
func (m *module) requires(path string) string {
	for _, q := range m.Require {
		if q.Path == path {
			return q.Version
		}
	}
	return ""
}

// moduleFiles are those of the sources.
func moduleFiles(ctx context.Context) ([]string, error) {
	out, err := output(ctx, ".", "git", "ls-files", "go.mod", "*/go.mod")
	if err != nil {
		return nil, fmt.Errorf("looking for the modules (run it in the directory of the sources): %w", err)
	}
	return strings.Fields(string(out)), nil
}

// upstreamModule is the go.mod of a Kubernetes.
func upstreamModule(ctx context.Context, version string) (*module, error) {
	raw, err := output(ctx, ".", "go", "mod", "download", "-json", kubernetes+"@"+version)
	var found struct{ GoMod, Error string }
	if jsonErr := json.Unmarshal(raw, &found); jsonErr == nil && found.Error != "" {
		return nil, fmt.Errorf("looking for Kubernetes %s: %s", version, found.Error)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for Kubernetes %s: %w", version, err)
	}
	return readModule(ctx, found.GoMod)
}

func readModule(ctx context.Context, file string) (*module, error) {
	raw, err := output(ctx, ".", "go", "mod", "edit", "-json", file)
	if err != nil {
		return nil, err
	}
	m := &module{}
	if err := json.Unmarshal(raw, m); err != nil {
		return nil, fmt.Errorf("reading %s: %w", file, err)
	}
	return m, nil
}

func edit(ctx context.Context, file string, flags []string) error {
	_, err := output(ctx, ".", "go", append(append([]string{"mod", "edit"}, flags...), file)...)
	return err
}

func tidy(ctx context.Context, file string) error {
	_, err := output(ctx, filepath.Dir(file), "go", "mod", "tidy")
	return err
}

// output runs a command and returns what it prints.
func output(ctx context.Context, dir, name string, args ...string) ([]byte, error) {
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
