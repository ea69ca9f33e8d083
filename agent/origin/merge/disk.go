package merge

import (
	"io/fs"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/agent/origin/objectfile"
	"github.com/a4s-io/a4s/internal/atomicfile"
)

// disk is what the checkpoint does with files. Each of it can fail, and the process can end
// after each.
type disk interface {
	Stat(path string) (fs.FileInfo, error)
	MkdirAll(path string) error
	ReadDir(path string) ([]fs.DirEntry, error)
	ReadFile(path string) ([]byte, error)
	Write(path string, data []byte) error
	ReadObjects(path string, kind schema.GroupVersionKind) ([]runtime.Object, error)
	WriteObjects(path string, objs []runtime.Object) error
	// Rename is on the disk when it returns.
	Rename(from, to, dir string) error
	RemoveAll(path string) error
}

type osDisk struct{}

func (osDisk) Stat(path string) (fs.FileInfo, error)      { return os.Stat(path) }
func (osDisk) MkdirAll(path string) error                 { return os.MkdirAll(path, 0o700) }
func (osDisk) ReadDir(path string) ([]fs.DirEntry, error) { return os.ReadDir(path) }
func (osDisk) ReadFile(path string) ([]byte, error)       { return os.ReadFile(path) }
func (osDisk) RemoveAll(path string) error                { return os.RemoveAll(path) }

func (osDisk) Write(path string, data []byte) error { return atomicfile.Update(path, data, 0o600) }

func (osDisk) ReadObjects(path string, kind schema.GroupVersionKind) ([]runtime.Object, error) {
	return objectfile.Read(path, kind)
}

func (osDisk) WriteObjects(path string, objs []runtime.Object) error {
	return objectfile.Write(path, objs)
}

func (osDisk) Rename(from, to, dir string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return atomicfile.SyncDir(dir)
}
