package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"

	"github.com/a4s-io/a4s/scripts/gomod"
)

// upstreamModule is the go.mod of a Kubernetes.
func upstreamModule(ctx context.Context, version string) (*gomod.File, error) {
	raw, err := gomod.Output(ctx, ".", "go", "mod", "download", "-json", gomod.Kubernetes+"@"+version)
	var found struct{ GoMod, Error string }
	if jsonErr := json.Unmarshal(raw, &found); jsonErr == nil && found.Error != "" {
		return nil, fmt.Errorf("looking for Kubernetes %s: %s", version, found.Error)
	}
	if err != nil {
		return nil, fmt.Errorf("looking for Kubernetes %s: %w", version, err)
	}
	return gomod.Read(ctx, found.GoMod)
}

func edit(ctx context.Context, file string, flags []string) error {
	_, err := gomod.Output(ctx, ".", "go", append(append([]string{"mod", "edit"}, flags...), file)...)
	return err
}

// build makes what is in the sources, tests included, as go vet compiles them too.
func build(ctx context.Context, out io.Writer) error {
	if _, err := fmt.Fprintln(out, "building, which takes some minutes"); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "make", "build", "vet")
	cmd.Stdout, cmd.Stderr = out, out
	return cmd.Run()
}

func tidy(ctx context.Context, file string) error {
	_, err := gomod.Output(ctx, filepath.Dir(file), "go", "mod", "tidy")
	return err
}
