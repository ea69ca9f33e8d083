package localstorage

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/a4s-io/a4s/internal/joinapi"
)

const (
	// parentMode keeps people without rights on the node away from all
	// volumes; containers see a volume alone.
	parentMode = 0o700
	// volumeMode lets every user of the pods in: which ones write is theirs
	// to settle.
	volumeMode = 0o777
)

// locate checks the path of a volume, and splits it.
func locate(v joinapi.LocalVolume) (parent, name string, err error) {
	parent, name = filepath.Split(v.Path)
	if !filepath.IsAbs(v.Path) || filepath.Clean(v.Path) != v.Path || v.Name == "" ||
		!strings.HasPrefix(name, v.Name+"_") || strings.ContainsRune(v.Name, '/') {
		return "", "", fmt.Errorf("%q is no path for the volume %q", v.Path, v.Name)
	}
	return filepath.Clean(parent), name, nil
}

// create makes the directory of a volume. It may be there already.
func create(v joinapi.LocalVolume) error {
	parent, name, err := locate(v)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(parent, parentMode); err != nil {
		return fmt.Errorf("making the directory of all volumes: %w", err)
	}
	root, err := os.OpenRoot(parent)
	if err != nil {
		return fmt.Errorf("opening the directory of all volumes: %w", err)
	}
	defer root.Close()
	if err := root.Mkdir(name, parentMode); err != nil {
		info, statErr := root.Lstat(name)
		if !errors.Is(err, os.ErrExist) || statErr != nil || !info.IsDir() {
			return fmt.Errorf("making %s: %w", v.Path, err)
		}
		return nil // of an earlier attempt, or used by now
	}
	if err := root.Chmod(name, volumeMode); err != nil { // whatever the umask
		return fmt.Errorf("opening %s to pods: %w", v.Path, err)
	}
	return nil
}

// remove removes the directory of a volume and all that is in it, until the
// deadline: then it returns errMore, and goes on the next time. It may be gone
// already.
func remove(v joinapi.LocalVolume, deadline time.Time) error {
	parent, name, err := locate(v)
	if err != nil {
		return err
	}
	root, err := os.OpenRoot(parent)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the directory of all volumes: %w", err)
	}
	defer root.Close()
	real, err := filepath.EvalSymlinks(parent)
	if err != nil {
		return fmt.Errorf("resolving %s: %w", parent, err)
	}
	why, err := mounted(filepath.Join(real, name))
	if err != nil {
		return err
	}
	if why != "" {
		return errors.New(why)
	}
	all, err := root.Open(".")
	if err != nil {
		return fmt.Errorf("opening the directory of all volumes: %w", err)
	}
	defer all.Close() //nolint:errcheck // it was only read
	if err := removeTree(all, name, deadline); err != nil {
		return fmt.Errorf("removing %s: %w", v.Path, err)
	}
	return nil
}

// mounted says what is mounted of a directory, or in it, "" for nothing. What pods can make of the names in a line
// has no limit, so lines have none.
func mounted(dir string) (string, error) {
	text, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", fmt.Errorf("reading what is mounted: %w", err)
	}
	// Names of volumes are unique, wherever their file system is mounted.
	of := "/" + filepath.Base(filepath.Dir(dir)) + "/" + filepath.Base(dir) + "/"
	escaped := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			return "", fmt.Errorf("reading what is mounted: a line has %d fields", len(fields))
		}
		root, at := escaped.Replace(fields[3]), escaped.Replace(fields[4])
		switch {
		case at == dir || strings.HasPrefix(at, dir+"/"):
			return fmt.Sprintf("something is mounted at %.200s; unmount it first", at), nil
		case strings.Contains(root+"/", of) && !strings.HasSuffix(root, "//deleted"):
			return fmt.Sprintf("it is mounted at %.200s: a pod has it", at), nil
		}
	}
	return "", nil
}
