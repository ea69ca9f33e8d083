//go:build linux

package payload

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/a4s-io/a4s/embedded/payload/format"
)

// ErrNotBuilt says that the binary was linked before its payload was built.
var ErrNotBuilt = errors.New("this binary was built without its payload: build it with make")

// Payload is an extracted payload. Every path is absolute.
type Payload struct {
	// Dir is the directory of this version.
	Dir string
	// BinDir holds the shim and runc.
	BinDir string
	// CNIBinDir holds the CNI plugins and nothing else.
	CNIBinDir string
	// ShimPath is containerd-shim-runc-v2.
	ShimPath string
	// RuncPath is runc.
	RuncPath string
	// PauseImageTar is an OCI archive of the sandbox image.
	PauseImageTar string
	// PauseImage is the name of that image.
	PauseImage string
	// GuestInit is the init program of pods' virtual machines.
	GuestInit string
}

// Extract makes the payload of this binary available below dataDir and removes
// superseded versions that nothing runs from. A failed property of the file
// system is a *problem.Precondition.
func Extract(ctx context.Context, dataDir string) (*Payload, error) {
	manifest, archive, err := read(format.ManifestName, format.ArchiveName)
	if err != nil {
		return nil, err
	}
	// The tools of this version are no superseded version. A node does without them.
	var keep []string
	if tools, _, err := read(format.ToolsManifestName, format.ToolsArchiveName); err == nil {
		m, err := format.ParseManifest(tools)
		if err != nil {
			return nil, err
		}
		keep = append(keep, m.ArchiveSHA256)
	}
	return extract(ctx, dataDir, manifest, archive, keep...)
}

// ExtractTool makes a program for people available below dataDir, and returns its path. Nothing is
// extracted before somebody asks for it, and no other version is removed: a server that has not been
// restarted yet uses its own.
func ExtractTool(ctx context.Context, dataDir, name string) (string, error) {
	manifest, archive, err := read(format.ToolsManifestName, format.ToolsArchiveName)
	if err != nil {
		return "", err
	}
	return extractTool(ctx, dataDir, name, manifest, archive)
}

func read(manifestName, archiveName string) (manifest, archive []byte, err error) {
	manifest, err = carried.ReadFile(archiveDir + manifestName)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, ErrNotBuilt
	}
	if err != nil {
		return nil, nil, err
	}
	if archive, err = carried.ReadFile(archiveDir + archiveName); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrNotBuilt, err)
	}
	return manifest, archive, nil
}

// in names the parts of the payload at dir.
func in(dir string) *Payload {
	return &Payload{
		Dir:           dir,
		BinDir:        filepath.Join(dir, "bin"),
		CNIBinDir:     filepath.Join(dir, "bin", "cni"),
		ShimPath:      filepath.Join(dir, "bin", "containerd-shim-runc-v2"),
		RuncPath:      filepath.Join(dir, "bin", "runc"),
		PauseImageTar: filepath.Join(dir, "images", "pause.tar"),
		PauseImage:    format.PauseImage,
		GuestInit:     filepath.Join(dir, "guest", "init"),
	}
}
