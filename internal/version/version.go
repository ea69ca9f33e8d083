package version

import (
	"runtime"
	"strings"
)

// Stamped by the linker (see the Makefile); the defaults mark a build made
// without it.
var (
	// Version is the version of a4s: the git tag, or the tag and distance.
	Version = "v0.0.0-dev"
	// Commit is the git commit that was built.
	Commit = "unknown"
	// Kubernetes is the version of k8s.io/kubernetes in go.mod.
	Kubernetes = "unknown"
	// Containerd is the version of containerd in go.mod.
	Containerd = "unknown"
	// Etcd is the version of etcd in go.mod.
	Etcd = "unknown"
)

// others are the versions of the other parts, as "NAME=VERSION,NAME=VERSION", from
// go.mod and, of runc, from scripts/payload.
var others = ""

// Part is something that a4s is made of.
type Part struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}

// Parts are all that have releases of their own, those that everybody asks for first.
func Parts() []Part {
	parts := []Part{{"Kubernetes", Kubernetes}, {"containerd", Containerd}, {"etcd", Etcd}}
	for field := range strings.SplitSeq(others, ",") {
		name, version, ok := strings.Cut(field, "=")
		if !ok {
			continue // built without the linker's stamps
		}
		parts = append(parts, Part{strings.ReplaceAll(name, "_", " "), version})
	}
	return append(parts, Part{"Go", Go() + " " + runtime.GOOS + "/" + runtime.GOARCH})
}

// Go returns the version of the Go toolchain that built this binary.
func Go() string { return runtime.Version() }
