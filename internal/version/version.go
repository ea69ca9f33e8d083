package version

import "runtime"

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

// Go returns the version of the Go toolchain that built this binary.
func Go() string { return runtime.Version() }
