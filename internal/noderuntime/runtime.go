package noderuntime

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/a4s-io/a4s/internal/workload"
)

// Builtin as an endpoint is the runtime that a4s carries for the type.
const Builtin = "builtin"

// Containerd is the name of the container runtime that a node has if nothing
// names one.
const Containerd = "containerd"

// Form is what Parse reads.
const Form = "name,container|vm,endpoint[,primary]"

const unix = "unix://"

// Runtime is one runtime of a node.
type Runtime struct {
	// Name is unique on the node. A RuntimeClass whose handler it is picks
	// this runtime.
	Name string `json:"name"`
	// Type is the type of workload it runs.
	Type workload.Type `json:"workloadType"`
	// Endpoint is "unix:///..." or Builtin.
	Endpoint string `json:"endpoint"`
	// Primary says that the readiness of the node follows this runtime.
	Primary bool `json:"primary,omitempty"`
}

// Errors of a runtime, and of several together.
var (
	ErrForm     = errors.New("not of the form " + Form)
	ErrName     = errors.New("bad name of a runtime")
	ErrEndpoint = errors.New("bad endpoint of a runtime")
	ErrTaken    = errors.New("named twice")
	ErrPrimary  = errors.New("more than one primary runtime")
	ErrConflict = errors.New("the container runtime is given twice")
)

// Parse reads "name,type,endpoint[,primary]".
func Parse(text string) (Runtime, error) {
	parts := strings.Split(text, ",")
	for i := range parts {
		parts[i] = strings.TrimSpace(parts[i])
	}
	if len(parts) < 3 || len(parts) > 4 || len(parts) == 4 && parts[3] != "primary" {
		return Runtime{}, ErrForm
	}
	t, err := workload.Parse(parts[1])
	if err != nil {
		return Runtime{}, err
	}
	r := Runtime{Name: parts[0], Type: t, Endpoint: parts[2], Primary: len(parts) == 4}
	return r, r.Complete()
}

// Complete checks the runtime and brings its endpoint into the form of a URL.
func (r *Runtime) Complete() error {
	if len(validation.IsDNS1123Label(r.Name)) > 0 {
		return fmt.Errorf("%w: %q: want up to 63 lower-case letters, digits and -", ErrName, r.Name)
	}
	if t, err := workload.Parse(string(r.Type)); err != nil {
		return err
	} else if named, err := workload.Parse(r.Name); err == nil && named != t {
		return fmt.Errorf("%w: %q is the name of another workload type", ErrName, r.Name)
	}
	path := strings.TrimPrefix(r.Endpoint, unix)
	switch {
	case r.Endpoint == Builtin:
	case !filepath.IsAbs(path) || filepath.Clean(path) != path:
		return fmt.Errorf("%w: %q: want the absolute path of a socket, one after unix://, or %s", ErrEndpoint,
			r.Endpoint, Builtin)
	default:
		r.Endpoint = unix + path
	}
	return nil
}

// OfNode returns the runtimes of a node, in the order of given, each of the
// form that Parse reads. containerEndpoint is the socket of an external
// container runtime, or empty. A node whose settings name no container runtime
// has one all the same, in front of the others. The primary runtime is the
// first container runtime if none is marked.
func OfNode(given []string, containerEndpoint string) ([]Runtime, error) {
	var all []Runtime
	for _, text := range given {
		r, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", text, err)
		}
		all = append(all, r)
	}
	first := slices.IndexFunc(all, func(r Runtime) bool { return r.Type == workload.Container })
	switch {
	case first >= 0 && containerEndpoint != "":
		return nil, fmt.Errorf("%w: %q beside the container runtime at %s", ErrConflict,
			given[first], containerEndpoint)
	case first < 0:
		r := Runtime{Name: Containerd, Type: workload.Container, Endpoint: Builtin}
		if containerEndpoint != "" {
			r.Endpoint = containerEndpoint
		}
		if err := r.Complete(); err != nil {
			return nil, err
		}
		all, first = slices.Insert(all, 0, r), 0
	}
	if !slices.ContainsFunc(all, func(r Runtime) bool { return r.Primary }) {
		all[first].Primary = true
	}
	for i, r := range all {
		if err := r.Fits(all[:i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Fits says why a node cannot have this runtime beside others.
func (r Runtime) Fits(others []Runtime) error {
	for _, o := range others {
		switch {
		case o.Name == r.Name:
			return fmt.Errorf("name %q: %w", r.Name, ErrTaken)
		case o.Endpoint == r.Endpoint && (r.Endpoint != Builtin || o.Type == r.Type):
			return fmt.Errorf("endpoint %s of %q and %q: %w", r.Endpoint, o.Name, r.Name, ErrTaken)
		case o.Primary && r.Primary:
			return fmt.Errorf("%w: %q and %q", ErrPrimary, o.Name, r.Name)
		}
	}
	return nil
}
