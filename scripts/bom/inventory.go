package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

const ownModule = "github.com/a4s-io/a4s"

// program is one executable that is shipped.
type program struct {
	name   string
	sha256 string
	// parts are keys of inventory.parts.
	parts []string
}

// part is a module or library in at least one program.
type part struct {
	// name is a module path, or the name of a library.
	name, version string
	// sum is the module's hash as go.sum holds it, if it is a module.
	sum string
	// library is the Debian package whose copyright file holds the licences of
	// a library, if it is none of Go.
	library string
	// arch is the architecture of that package.
	arch string
	// root is where the files of a module are when they are not in the module
	// cache.
	root string

	licenses []string
	texts    []text
}

// text is a file that states a licence.
type text struct{ name, content string }

func (p *part) key() string { return p.name + "@" + p.version }

type shipment struct {
	programs []program
	parts    map[string]*part
}

// cLibraries are linked into the programs that use C, by the file name of the
// program. The others are linked by Go alone.
func cLibraries(program string) []string {
	switch program {
	case "a4s":
		return []string{"libc6-dev"}
	case "runc":
		return []string{"libc6-dev", "libseccomp-dev"}
	}
	return nil
}

// inventory reads what is in a binary and in the programs it carries.
func inventory(ctx context.Context, binary string, archives ...string) (*shipment, error) {
	tmp, err := os.MkdirTemp("", "a4s-bom-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	for _, archive := range archives {
		if archive == "" {
			continue
		}
		out, err := exec.CommandContext(ctx, "tar", "--zstd", "-xf", archive, "-C", tmp).CombinedOutput()
		if err != nil {
			return nil, fmt.Errorf("unpacking %s: %w: %s", archive, err, out)
		}
	}
	s := &shipment{parts: map[string]*part{}}
	if err := s.add(ctx, "a4s", binary); err != nil {
		return nil, err
	}
	carried := 0
	err = filepath.WalkDir(filepath.Join(tmp, "bin"), func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		carried++
		return s.add(ctx, entry.Name(), file)
	})
	if err != nil {
		return nil, err
	}
	if carried == 0 {
		return nil, fmt.Errorf("%s holds no program under bin/", strings.Join(archives, ", "))
	}
	return s, nil
}

// add reads one program.
func (s *shipment) add(ctx context.Context, name, file string) error {
	info, err := buildinfo.ReadFile(file)
	if err != nil {
		return fmt.Errorf("reading the modules of %s: %w", name, err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	hash := sha256.Sum256(content)
	p := program{name: name, sha256: hex.EncodeToString(hash[:])}
	for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
		if m.Replace != nil {
			m = m.Replace
		}
		q := &part{name: m.Path, version: m.Version, sum: m.Sum}
		if m.Path == ownModule || strings.HasPrefix(m.Path, ownModule+"/") {
			q.version, q.root = ownVersion(ctx), "."
		}
		p.parts = append(p.parts, s.keep(q))
	}
	p.parts = append(p.parts, s.keep(&part{name: "std", version: info.GoVersion, root: goRoot(ctx)}))
	for _, library := range cLibraries(name) {
		q, err := debianPackage(ctx, library, architecture(info))
		if err != nil {
			return err
		}
		p.parts = append(p.parts, s.keep(q))
	}
	s.programs = append(s.programs, p)
	return nil
}

// architecture is what a program was built for.
func architecture(info *buildinfo.BuildInfo) string {
	for _, s := range info.Settings {
		if s.Key == "GOARCH" {
			return s.Value
		}
	}
	return runtime.GOARCH
}

func (s *shipment) keep(p *part) string {
	if s.parts[p.key()] == nil {
		s.parts[p.key()] = p
	}
	return p.key()
}

// sorted returns the parts by name.
func (s *shipment) sorted() []*part {
	all := make([]*part, 0, len(s.parts))
	for _, p := range s.parts {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *part) int { return cmp.Compare(a.key(), b.key()) })
	return all
}

// ownVersion is the version that the build stamps into a4s. Go's own stamp is
// not there, because a4s is built without a look at its repository. It is looked
// for in the directory of the sources.
func ownVersion(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "scripts/version.sh").Output()
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(out))
}

func goRoot(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// debianPackage is the installed version of a package, for one of the architectures that it is installed for.
func debianPackage(ctx context.Context, name, arch string) (*part, error) {
	out, err := exec.CommandContext(ctx, "dpkg-query",
		"-W", "-f", "${source:Package} ${source:Version}", name+":"+arch).Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, bytes.TrimSpace(failed.Stderr))
		}
		return nil, fmt.Errorf("the version of the Debian package %s: %w", name, err)
	}
	source, version, _ := strings.Cut(string(out), " ")
	return &part{name: source, version: version, library: name, arch: arch}, nil
}
