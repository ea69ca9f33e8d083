package merge

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	logtest "github.com/sirupsen/logrus/hooks/test"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/agent/origin"
	"github.com/a4s-io/a4s/tests/partitiontest"
)

// faulty is a disk of which operations fail: those from the first one on, so many.
type faulty struct {
	osDisk
	mu          sync.Mutex
	operations  int
	first, many int
}

func (f *faulty) step() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.operations++
	if n := f.operations - 1; n >= f.first && n < f.first+f.many {
		return syscall.EIO
	}
	return nil
}

func (f *faulty) Stat(path string) (fs.FileInfo, error) {
	if err := f.step(); err != nil {
		return nil, err
	}
	return f.osDisk.Stat(path)
}

func (f *faulty) MkdirAll(path string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.osDisk.MkdirAll(path)
}

func (f *faulty) ReadDir(path string) ([]fs.DirEntry, error) {
	if err := f.step(); err != nil {
		return nil, err
	}
	return f.osDisk.ReadDir(path)
}

func (f *faulty) ReadFile(path string) ([]byte, error) {
	if err := f.step(); err != nil {
		return nil, err
	}
	return f.osDisk.ReadFile(path)
}

func (f *faulty) Write(path string, data []byte) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.osDisk.Write(path, data)
}

func (f *faulty) ReadObjects(path string, kind schema.GroupVersionKind) ([]runtime.Object, error) {
	if err := f.step(); err != nil {
		return nil, err
	}
	return f.osDisk.ReadObjects(path, kind)
}

func (f *faulty) WriteObjects(path string, objs []runtime.Object) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.osDisk.WriteObjects(path, objs)
}

func (f *faulty) Rename(from, to, dir string) error {
	if err := f.step(); err != nil {
		return err
	}
	return f.osDisk.Rename(from, to, dir)
}

func (f *faulty) done() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.operations
}

// RemoveAll removes some of it when it fails.
func (f *faulty) RemoveAll(path string) error {
	if err := f.step(); err != nil {
		return errors.Join(err, os.Remove(filepath.Join(path, identityFile)))
	}
	return f.osDisk.RemoveAll(path)
}

// TestFaultsOfTheDisk lets each operation on files fail, once and from then on as if the process
// had been killed, while no partition answers. Nobody is told less than the pods of all
// partitions, nor another's pods; and once it was tried again the right ones are there.
func TestFaultsOfTheDisk(t *testing.T) {
	both := []string{"kube-system.tp2.system/x", "kube-system/x"}
	for name, c := range map[string]struct {
		before []string // the identities of tp2, before
		act    func(c *Collections, home origin.Partition, tp2 func(identity string) origin.Partition) error
		want   []string // nil: they are not known
	}{
		"it starts": {[]string{"a"},
			func(c *Collections, home origin.Partition, tp2 func(string) origin.Partition) error {
				return c.Begin([]origin.Partition{home, tp2("a")})
			}, both},
		"a partition joined meanwhile": {nil,
			func(c *Collections, home origin.Partition, tp2 func(string) origin.Partition) error {
				return c.Begin([]origin.Partition{home, tp2("a")})
			}, both[1:]},
		"a partition joins": {nil,
			func(c *Collections, home origin.Partition, tp2 func(string) origin.Partition) error {
				return errors.Join(c.Begin([]origin.Partition{home}), c.Join(tp2("a"), true))
			}, both[1:]},
		"another partition has the name": {[]string{"a"},
			func(c *Collections, home origin.Partition, tp2 func(string) origin.Partition) error {
				return c.Begin([]origin.Partition{home, tp2("b")})
			}, both[1:]},
		"another one gets the name": {[]string{"a"},
			func(c *Collections, home origin.Partition, tp2 func(string) origin.Partition) error {
				return errors.Join(c.Begin([]origin.Partition{home, tp2("a")}), c.Leave("tp2"), c.Join(tp2("b"), true))
			}, both[1:]},
		"it was alone": {nil,
			func(c *Collections, home origin.Partition, _ func(string) origin.Partition) error {
				return errors.Join(c.Alone(home), c.Begin([]origin.Partition{home}))
			}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			home, second := partitiontest.New(t, "main"), partitiontest.New(t, "tp2")
			home.Put(t, "pods", pod("kube-system", "x", "1"))
			second.Put(t, "pods", pod("kube-system", "x", "2"))
			tp2 := func(identity string) origin.Partition {
				p := second.Partition(false)
				p.Identity = identity
				return p
			}
			start := func(dir string, on disk) (*Collections, error) {
				logger, _ := logtest.NewNullLogger()
				return New(Options{NodeName: node1, Dir: dir, Patience: time.Minute,
					Log: logrus.NewEntry(logger), disk: on})
			}
			before := open(t, t.TempDir(), true, home)
			before.awaitDisk(t, "main", 1)
			for _, identity := range c.before {
				if err := before.Join(tp2(identity), true); err != nil {
					t.Fatal(err)
				}
				before.awaitDisk(t, "tp2", 1)
			}
			before.Close()
			home.Away.Store(true)
			second.Away.Store(true)
			right := func(process *Collections) bool {
				got, err := process.pods(t)
				if unknown := apierrors.IsServiceUnavailable(err); !unknown && !slices.Equal(got, c.want) {
					t.Fatalf("the pods are said to be %q: %v", got, err)
				}
				return (err != nil) == (c.want == nil)
			}
			for _, many := range []int{1, 1 << 30} {
				for first, ended := 0, false; !ended; first++ {
					dir := t.TempDir()
					if err := os.CopyFS(dir, os.DirFS(before.files.dir)); err != nil {
						t.Fatal(err)
					}
					on := &faulty{first: first, many: many}
					if process, err := start(dir, on); err == nil {
						failed := c.act(process, home.Partition(true), tp2)
						right(process)
						if many == 1 {
							if err := process.Retry(); failed != nil && err != nil {
								t.Fatalf("after operation %d, %v: %v", first, failed, err)
							}
							eventually(t, func() bool { return right(process) }, func() any { return first })
						}
						process.Close()
					}
					ended = on.done() <= first
					again, err := start(dir, osDisk{})
					if err == nil && c.want == nil { // as it may be after a kill, not alone any more
						err = again.Begin([]origin.Partition{home.Partition(true)})
						if got, err := again.pods(t); err == nil && !slices.Equal(got, both[1:]) {
							t.Fatalf("after operation %d of the last process the pods are said to be %q", first, got)
						}
					} else if err == nil {
						err = c.act(again, home.Partition(true), tp2)
						right(again)
					}
					if err != nil {
						t.Fatal(err)
					}
					again.Close()
				}
			}
		})
	}
}

// TestAnswersThatAreNoList: whatever a partition answers that is no list of pods, its pods stay.
func TestAnswersThatAreNoList(t *testing.T) {
	dir := t.TempDir()
	home, tp2 := partitiontest.New(t, "main"), partitiontest.New(t, "tp2")
	home.Put(t, "pods", pod("kube-system", "x", "1"))
	tp2.Put(t, "pods", pod("kube-system", "x", "2"))
	before := open(t, dir, true, home, tp2)
	before.awaitDisk(t, "tp2", 1)
	before.Close()
	type answer struct {
		code int
		obj  runtime.Object
	}
	kind := func(kind string) metav1.TypeMeta { return metav1.TypeMeta{APIVersion: "v1", Kind: kind} }
	answers := []answer{{http.StatusOK, nil}, {http.StatusOK, &corev1.PodList{}}, // which does not say what it is
		{http.StatusOK, &metav1.Status{TypeMeta: kind("Status"), Status: metav1.StatusSuccess}},
		{http.StatusOK, &corev1.Pod{TypeMeta: kind("Pod")}},
		{http.StatusOK, &corev1.SecretList{TypeMeta: kind("SecretList")}}}
	for _, code := range []int{301, 400, 401, 403, 404, 405, 409, 410, 422, 429, 500, 502, 503, 504} {
		answers = append(answers, answer{code, &corev1.PodList{TypeMeta: kind("PodList")}},
			answer{code, &metav1.Status{TypeMeta: kind("Status"), Status: metav1.StatusFailure,
				Code: int32(code), Reason: metav1.StatusReasonExpired}}) //nolint:gosec // it is small
	}
	for _, a := range answers {
		tp2.Answer("GET", "/api/v1/pods", func(partitiontest.Asked) (int, runtime.Object) { return a.code, a.obj })
		process := open(t, dir, false, home, tp2)
		got, err := process.pods(t)
		if err != nil || !slices.Equal(got, []string{"kube-system.tp2.system/x", "kube-system/x"}) {
			t.Errorf("after %d with a %T the pods are said to be %q: %v", a.code, a.obj, got, err)
		}
		process.Close()
	}
}
