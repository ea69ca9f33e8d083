package containerd

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/a4s-io/a4s/internal/problem"
)

// runc is the handler of the runtime that a4s carries.
const runc = "runc"

// runcShim is the type of runtimes that containerd's own shim calls as it calls runc.
const runcShim = "io.containerd.runc.v2"

// Runtime is a program of the machine that containerd can run pods with.
type Runtime struct {
	// Handler is how RuntimeClasses name it.
	Handler string
	// Type is containerd's name for its kind.
	Type string
	// Path is where the program is.
	Path string
	// Shim says that containerd starts the program itself, and not by the shim of runc.
	Shim bool
}

// known are the runtimes that are looked for. Manifests have a RuntimeClass for each of them.
func known() []Runtime {
	return []Runtime{
		{Handler: "nvidia", Type: runcShim, Path: "nvidia-container-runtime"},
		{Handler: "nvidia-cdi", Type: runcShim, Path: "nvidia-container-runtime.cdi"},
		{Handler: "crun", Type: runcShim, Path: "crun"},
		{Handler: "runsc", Type: "io.containerd.runsc.v1", Path: "containerd-shim-runsc-v1", Shim: true},
		{Handler: "kata", Type: "io.containerd.kata.v2", Path: "containerd-shim-kata-v2", Shim: true},
		{Handler: "spin", Type: "io.containerd.spin.v2", Path: "containerd-shim-spin-v2", Shim: true},
		{Handler: "slight", Type: "io.containerd.slight.v1", Path: "containerd-shim-slight-v1", Shim: true},
		{Handler: "lunatic", Type: "io.containerd.lunatic.v1", Path: "containerd-shim-lunatic-v1", Shim: true},
		{Handler: "wws", Type: "io.containerd.wws.v1", Path: "containerd-shim-wws-v1", Shim: true},
		{Handler: "wasmedge", Type: "io.containerd.wasmedge.v1", Path: "containerd-shim-wasmedge-v1", Shim: true},
		{Handler: "wasmer", Type: "io.containerd.wasmer.v1", Path: "containerd-shim-wasmer-v1", Shim: true},
		{Handler: "wasmtime", Type: "io.containerd.wasmtime.v1", Path: "containerd-shim-wasmtime-v1", Shim: true},
	}
}

// Directories returns where Found looks: those of a path (PATH), of the system, and where
// operators of GPUs and of runtimes put programs on nodes.
func Directories(path string) []string {
	return append(filepath.SplitList(withSystemDirs(path)),
		"/usr/local/nvidia/toolkit", "/opt/kwasm/bin", "/opt/kata/bin")
}

// Found returns the known runtimes that these directories have, each from the first that has it.
func Found(directories []string) []Runtime {
	var found []Runtime
	for _, r := range known() {
		for _, dir := range directories {
			if !filepath.IsAbs(dir) {
				continue
			}
			path := filepath.Join(dir, r.Path)
			if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() && st.Mode().Perm()&0o111 != 0 {
				r.Path = path
				found = append(found, r)
				break
			}
		}
	}
	return found
}

// checkDefaultRuntime refuses a default that nothing on this machine is.
func (o Options) checkDefaultRuntime() error {
	handlers := []string{runc}
	for _, r := range o.Runtimes {
		handlers = append(handlers, r.Handler)
	}
	if slices.Contains(handlers, o.DefaultRuntime) {
		return nil
	}
	want := runc + ", which is the only one on this machine"
	if len(handlers) > 1 {
		want = "one that is on this machine: " + strings.Join(handlers, ", ")
	}
	for _, r := range known() {
		if r.Handler == o.DefaultRuntime {
			want += fmt.Sprintf("; for %s the program %s is looked for in PATH", r.Handler, r.Path)
		}
	}
	return &problem.Input{Source: "--default-runtime", Value: o.DefaultRuntime, Want: want}
}
