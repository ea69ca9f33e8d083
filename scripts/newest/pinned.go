package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/a4s-io/a4s/scripts/gomod"
)

// elsewhere are parts that no go.mod requires: the file that pins each, and the
// text around the version.
var elsewhere = []struct {
	module, file string
	version      *regexp.Regexp
}{
	{"github.com/opencontainers/runc", "scripts/payload/main.go", regexp.MustCompile(`runcVersion = "(v[^"]+)"`)},
	{"sigs.k8s.io/cri-tools", "scripts/payload/main.go", regexp.MustCompile(`crictlVersion = "(v[^"]+)"`)},
	{"honnef.co/go/tools", "Makefile", regexp.MustCompile(`honnef\.co/go/tools/cmd/staticcheck@(v\S+)`)},
}

// pinned finds all parts.
func pinned(ctx context.Context) ([]part, error) {
	files, err := gomod.Files(ctx)
	if err != nil {
		return nil, err
	}
	var parts []part
	for _, file := range files {
		of, err := inModule(ctx, file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		parts = append(parts, of...)
	}
	for _, e := range elsewhere {
		content, err := os.ReadFile(e.file)
		if err != nil {
			return nil, err
		}
		found := e.version.FindSubmatch(content)
		if found == nil {
			return nil, fmt.Errorf("%s: nothing matches %s any more", e.file, e.version)
		}
		of, err := modules(ctx, ".", e.file, []string{e.module + "@" + string(found[1])})
		if err != nil {
			return nil, err
		}
		parts = append(parts, of...)
	}
	return parts, nil
}

// inModule finds what a go.mod pins: what it requires directly, what the tools
// are in, and the toolchain. The modules that are released with Kubernetes
// count as one part with it.
func inModule(ctx context.Context, file string) ([]part, error) {
	mod, err := gomod.Read(ctx, file)
	if err != nil {
		return nil, err
	}
	parts, err := modules(ctx, filepath.Dir(file), file, direct(mod))
	if err != nil || file != "go.mod" {
		return parts, err
	}
	toolchain, err := toolchain(ctx, file, mod.Go)
	return append(parts, toolchain), err
}

// direct are the modules that are pinned by intention.
func direct(m *gomod.File) []string {
	staging := map[string]bool{}
	for _, r := range m.Replace {
		if r.Old.Path == r.New.Path && strings.HasPrefix(r.Old.Path, "k8s.io/") &&
			strings.HasPrefix(r.New.Version, "v0.") && !strings.HasPrefix(r.New.Version, "v0.0.0-") {
			staging[r.Old.Path] = true
		}
	}
	var out []string
	for _, r := range m.Require {
		ofTool := slices.ContainsFunc(m.Tool, func(t struct{ Path string }) bool {
			return strings.HasPrefix(t.Path+"/", r.Path+"/")
		})
		if !staging[r.Path] && (!r.Indirect || ofTool) && !strings.HasPrefix(r.Path, mainModule) {
			out = append(out, r.Path)
		}
	}
	return out
}

const mainModule = "github.com/a4s-io/"

// module is what the go command says of one.
type module struct {
	Path, Version   string
	Time            time.Time
	Update, Replace *module
	Error           *struct{ Err string }
}

// modules asks for modules, which are those of dir or have a version.
func modules(ctx context.Context, dir, file string, names []string) ([]part, error) {
	if len(names) == 0 {
		return nil, nil
	}
	raw, err := gomod.Output(ctx, dir, "go", append([]string{"list", "-e", "-m", "-u", "-json"}, names...)...)
	if err != nil {
		return nil, err
	}
	return partsOf(file, raw)
}

// partsOf reads what the go command says of modules.
func partsOf(file string, raw []byte) ([]part, error) {
	var parts []part
	for decoder := json.NewDecoder(bytes.NewReader(raw)); ; {
		var m module
		if err := decoder.Decode(&m); errors.Is(err, io.EOF) {
			return parts, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading what the go command says: %w", err)
		}
		name, is := m.Path, m
		if m.Replace != nil {
			is = *m.Replace
		}
		if is.Version == "" {
			continue // a directory of the sources
		}
		p := part{Where: file, Name: name, Version: is.Version, Date: is.Time, Newest: is.Version, NewestDate: is.Time}
		if is.Update != nil {
			p.Newest, p.NewestDate = is.Update.Version, is.Update.Time
		}
		if m.Error != nil {
			p.Newest, p.Why = "", m.Error.Err
		}
		parts = append(parts, p)
	}
}

// toolchain is the part that is Go itself.
func toolchain(ctx context.Context, file, version string) (part, error) {
	const name = "golang.org/toolchain"
	raw, err := gomod.Output(ctx, ".", "go", "list", "-m", "-versions", name)
	if err != nil {
		return part{}, err
	}
	newest := newestGo(strings.Fields(string(raw)), version)
	p := part{Where: file, Name: "Go", Version: version, Newest: newest}
	for v, to := range map[string]*time.Time{version: &p.Date, newest: &p.NewestDate} {
		raw, err := gomod.Output(ctx, ".", "go", "list", "-m", "-json", name+"@"+toolchainPrefix+v+toolchainSuffix)
		if err != nil {
			return part{}, err
		}
		var m module
		if err := json.Unmarshal(raw, &m); err != nil {
			return part{}, err
		}
		*to = m.Time
	}
	return p, nil
}

// A toolchain is a module with a version for each platform.
const toolchainPrefix, toolchainSuffix = "v0.0.1-go", ".linux-amd64"

var released = regexp.MustCompile(`^(\d+)\.(\d+)\.(\d+)$`)

// newestGo is the newest released Go among the versions of toolchains, or the one
// that is used.
func newestGo(versions []string, used string) string {
	newest := used
	for _, v := range versions {
		v, isGo := strings.CutPrefix(v, toolchainPrefix)
		v, isOurs := strings.CutSuffix(v, toolchainSuffix)
		if isGo && isOurs && released.MatchString(v) && newer(v, newest) {
			newest = v
		}
	}
	return newest
}

// newer compares versions of three numbers.
func newer(a, b string) bool {
	x, y := released.FindStringSubmatch(a), released.FindStringSubmatch(b)
	if x == nil || y == nil {
		return x != nil
	}
	for i := 1; i < len(x); i++ {
		if len(x[i]) != len(y[i]) {
			return len(x[i]) > len(y[i])
		}
		if x[i] != y[i] {
			return x[i] > y[i]
		}
	}
	return false
}
