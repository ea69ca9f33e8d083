package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/a4s-io/a4s/scripts/gomod"
)

// raise is what is raised, and to what.
type raise struct {
	kubernetes, staging string
	// upstream is Kubernetes' go.mod.
	upstream *gomod.File
	// others are the modules that are named, with their versions.
	others map[string]string
}

var (
	release = regexp.MustCompile(`^v1\.(\d+\.\d+(?:-(?:alpha|beta|rc)\.\d+)?)$`)
	ofStage = regexp.MustCompile(`^v0\.\d+\.\d+(?:-(?:alpha|beta|rc)\.\d+)?$`)
)

// stagingVersion is that of the modules that are released with a Kubernetes.
func stagingVersion(of string) (string, error) {
	found := release.FindStringSubmatch(of)
	if found == nil {
		return "", fmt.Errorf("%q is no version of Kubernetes", of)
	}
	return "v0." + found[1], nil
}

// parseModules reads MODULE@VERSION.
func parseModules(args []string) (map[string]string, error) {
	out := map[string]string{}
	for _, arg := range args {
		path, version, ok := strings.Cut(arg, "@")
		if !ok || path == "" || !strings.HasPrefix(version, "v") {
			return nil, fmt.Errorf("%q is no module with a version", arg)
		}
		out[path] = version
	}
	return out, nil
}

// edits are the flags of go mod edit that raise a module. Those of the others
// that it requires are added to met.
func (r *raise) edits(m *gomod.File, met map[string]bool) []string {
	staged := r.stagedIn(m)
	uses := slices.ContainsFunc(m.Require, func(q gomod.Module) bool { return q.Path == gomod.Kubernetes })
	var flags []string
	for _, q := range m.Require {
		want := q.Version
		switch {
		case q.Path == gomod.Kubernetes:
			want = r.kubernetes
		case staged[q.Path] && ofStage.MatchString(q.Version):
			want = r.staging
		case r.others[q.Path] != "":
			want = r.others[q.Path]
			met[q.Path] = true
		}
		if want != q.Version {
			flags = append(flags, "-require="+q.Path+"@"+want)
		}
	}
	replaced := map[string]bool{}
	for _, p := range m.Replace {
		replaced[p.Old.Path] = true
		if p.Old.Path != p.New.Path {
			continue // a directory, or another module
		}
		want := p.New.Version
		if staged[p.Old.Path] {
			want = r.staging
		} else if v := r.upstream.Requires(p.Old.Path); v != "" {
			want = v
		}
		if want != p.New.Version {
			flags = append(flags, "-replace="+p.Old.Path+"="+p.New.Path+"@"+want)
		}
	}
	// What kept the last set from being overtaken is what this one asks for.
	for _, e := range m.Exclude {
		if e.Version == r.upstream.Requires(e.Path) || r.others[e.Path] != "" {
			flags = append(flags, "-dropexclude="+e.Path+"@"+e.Version)
		}
	}
	if !uses {
		return flags
	}
	// What is new among the modules that Kubernetes is released with.
	for _, q := range r.upstream.Require {
		if q.Version == "v0.0.0" && strings.HasPrefix(q.Path, "k8s.io/") && !replaced[q.Path] {
			flags = append(flags, "-replace="+q.Path+"="+q.Path+"@"+r.staging)
		}
	}
	return flags
}

// left are the pins of m that the upstream has no version for: a module that it does not
// have any more, or has under another path.
func (r *raise) left(m *gomod.File) []string {
	staged := r.stagedIn(m)
	var paths []string
	for _, p := range m.Replace {
		if p.Old.Path == p.New.Path && !staged[p.Old.Path] && r.upstream.Requires(p.Old.Path) == "" {
			paths = append(paths, p.Old.Path)
		}
	}
	return paths
}

// align are the flags that give m what both modules require, and what is pinned, in
// the versions of the first.
func align(m, first *gomod.File) []string {
	var flags []string
	for _, q := range m.Require {
		if want := first.Requires(q.Path); want != "" && want != q.Version {
			flags = append(flags, "-require="+q.Path+"@"+want)
		}
	}
	pinned := map[string]string{}
	for _, p := range m.Replace {
		pinned[p.Old.Path] = p.New.Version
	}
	for _, p := range first.Replace {
		if p.Old.Path == p.New.Path && pinned[p.Old.Path] != p.New.Version {
			flags = append(flags, "-replace="+p.Old.Path+"="+p.New.Path+"@"+p.New.Version)
		}
	}
	return flags
}

// stagedIn are the modules of m that are released with Kubernetes: those that
// its own go.mod has without a version, because they are in its sources.
func (r *raise) stagedIn(m *gomod.File) map[string]bool {
	staged := map[string]bool{}
	for _, q := range r.upstream.Require {
		if q.Version == "v0.0.0" {
			staged[q.Path] = true
		}
	}
	for _, p := range r.upstream.Replace {
		if strings.HasPrefix(p.New.Path, "./staging/") {
			staged[p.Old.Path] = true
		}
	}
	// Some are in no requirement of Kubernetes, and are replaced here.
	for _, p := range m.Replace {
		if p.Old.Path == p.New.Path && strings.HasPrefix(p.Old.Path, "k8s.io/") && ofStage.MatchString(p.New.Version) {
			staged[p.Old.Path] = true
		}
	}
	return staged
}
