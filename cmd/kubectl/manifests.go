package kubectl

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"

	"github.com/a4s-io/a4s/cmd"
	"github.com/a4s-io/a4s/internal/problem"
)

// The flags that kubectl has for manifests, in all commands that take any.
const (
	filenameFlag  = "filename"
	kustomizeFlag = "kustomize"
	recursiveFlag = "recursive"
	// rawFlag is the path of a request, whose body the file then is.
	rawFlag = "raw"
)

const stdin = "-"

// manifests are what a command reads from -f and -k.
type manifests struct {
	resource.FilenameOptions
	// kept are copies in memory of what can be read only once.
	kept []*os.File
}

// readManifests lets a command read its manifests once before it begins, for
// the spaces that they name.
func readManifests(root *cobra.Command, run *cmd.KubectlRun) {
	m := &manifests{} // as long as the command: kubectl reads the copies
	before := root.PersistentPreRunE
	root.PersistentPreRunE = func(c *cobra.Command, args []string) error {
		if err := before(c, args); err != nil {
			return err
		}
		if err := m.find(c.Flags()); err != nil {
			return err
		}
		named, err := m.named()
		if err != nil {
			return err
		}
		run.Name(named...)
		return nil
	}
}

// find finds the manifests that a command is given. Of what can be read only
// once it makes copies, for kubectl to read.
func (m *manifests) find(flags *pflag.FlagSet) error {
	f, raw := flags.Lookup(filenameFlag), flags.Lookup(rawFlag)
	if f == nil || raw != nil && raw.Value.String() != "" {
		return nil // of a raw request the path names the space
	}
	names, ok := f.Value.(pflag.SliceValue)
	if !ok {
		return nil
	}
	if k := flags.Lookup(kustomizeFlag); k != nil {
		m.Kustomize = k.Value.String()
	}
	if r := flags.Lookup(recursiveFlag); r != nil {
		m.Recursive = r.Value.String() == "true"
	}
	m.Filenames = names.GetSlice()
	changed := false
	for i, name := range m.Filenames {
		info, err := os.Stat(name)
		switch {
		case name == stdin:
			if os.Stdin, err = m.keep(name, os.Stdin); err != nil {
				return err
			}
		case err != nil || info.Mode().IsRegular() || info.IsDir():
			// A file, a URL, a pattern, or what kubectl says is not there.
		default:
			if m.Filenames[i], err = m.keepFile(name); err != nil {
				return err
			}
			changed = true
		}
	}
	if !changed {
		return nil
	}
	return names.Replace(m.Filenames)
}

// keepFile keeps what may be a pipe and returns the path of the copy.
func (m *manifests) keepFile(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	kept, err := m.keep(name, f)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("/proc/self/fd/%d", kept.Fd()), nil
}

// keep copies a stream to a file that is nowhere but in memory.
func (m *manifests) keep(name string, from io.Reader) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("keeping %s: %w", name, err)
	}
	f := os.NewFile(uintptr(fd), name)
	m.kept = append(m.kept, f)
	if _, err := io.Copy(f, from); err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return f, rewind(f)
}

func rewind(f *os.File) error {
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// named reads the manifests as kubectl does, but without the API server, and
// returns the space that each object names.
func (m *manifests) named() ([]cmd.Named, error) {
	if len(m.Filenames) == 0 && m.Kustomize == "" {
		return nil, nil
	}
	var named []cmd.Named
	var wrong []error
	err := resource.NewLocalBuilder().Unstructured().ContinueOnError().FilenameParam(false,
		&m.FilenameOptions).Flatten().Do().
		Visit(func(info *resource.Info, err error) error {
			object, ok := info.Object.(*unstructured.Unstructured)
			if err != nil || !ok {
				return err
			}
			n, err := nameOf(info.Source, object)
			if err != nil {
				wrong = append(wrong, err)
			}
			named = append(named, n)
			return nil
		})
	if len(wrong) > 0 {
		return nil, wrong[0]
	}
	if err != nil && m.fetched() {
		// The next time it may be there, and nobody would have looked.
		return nil, err
	}
	// Of files, kubectl does not send what cannot be read, and says why.
	if slices.Contains(m.Filenames, stdin) {
		return named, rewind(os.Stdin)
	}
	return named, nil
}

// fetched reports whether manifests are not just files.
func (m *manifests) fetched() bool {
	return m.Kustomize != "" || slices.ContainsFunc(m.Filenames, func(name string) bool {
		return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
	})
}

// nameOf says which space an object names.
func nameOf(source string, object *unstructured.Unstructured) (cmd.Named, error) {
	n := cmd.Named{Source: fmt.Sprintf("%s: %s %s: metadata.tenant", source, object.GetKind(), object.GetName())}
	value, found, err := unstructured.NestedFieldNoCopy(object.Object, "metadata", "tenant")
	if err != nil || !found || value == nil {
		return n, nil
	}
	tenant, ok := value.(string)
	if !ok {
		return n, &problem.Input{Source: n.Source, Value: fmt.Sprint(value), Want: "the name of a tenant as a string"}
	}
	n.Tenant = tenant
	return n, nil
}
