package store

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/bootstrapapi"
	"github.com/a4s-io/a4s/internal/problem"
)

// Errors that callers distinguish.
var (
	ErrExists    = errors.New("a pod of that namespace and name exists")
	ErrNotFound  = errors.New("no such pod")
	ErrPersisted = errors.New("the API server has the pod")
	ErrBusy      = errors.New("the pod is being offered to the API server at this moment")
)

// State says who decides about a pod.
type State int

// States, in the order in which a pod goes through them.
const (
	// Local: this node; the server does not have the pod.
	Local State = iota
	// Persisted: the server has the pod but did not show it to this node yet.
	Persisted
	// Seen: the server, as about any other pod.
	Seen
)

// Entry is one pod. It must not be changed.
type Entry struct {
	// Pod is the pod as it was accepted, with what the kubelet last said of
	// its status, and a deletion timestamp if its end was asked for.
	Pod *corev1.Pod
	// State says who decides about it.
	State State
	// ServerUID is the UID that the server gave the pod; normally its own.
	ServerUID types.UID
	// ResourceVersion is the server's at the moment when it took the pod.
	ResourceVersion string
	// Message is why the server has not taken the pod yet.
	Message string
	// Doubt says that an offer ended without an answer: the server may have
	// the pod.
	Doubt bool
	// Offering says that an offer is on its way.
	Offering bool
}

// Key returns namespace and name.
func (e *Entry) Key() types.NamespacedName { return Key(e.Pod) }

// Is reports whether a pod of the server is this one.
func (e *Entry) Is(pod *corev1.Pod) bool {
	return pod.UID == e.Pod.UID || e.ServerUID != "" && pod.UID == e.ServerUID ||
		pod.Annotations[bootstrapapi.UIDAnnotation] == string(e.Pod.UID)
}

// Key returns the namespace and name of a pod.
func Key(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// Change is what happened to a pod that the server has not shown yet.
type Change struct {
	Entry *Entry
	// Removed says that the pod is gone.
	Removed bool
	// Created says that it is new.
	Created bool
}

// Store holds the bootstrap pods.
type Store struct {
	dir string

	mu       sync.Mutex
	byKey    map[types.NamespacedName]*Entry
	reserved map[types.NamespacedName]bool
	notify   []func(Change)
}

// Open reads the pods in dir and makes it if it does not exist. Files that
// cannot be read are returned as damaged, each error naming its file; the
// other pods are there.
func Open(dir string) (s *Store, damaged []error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, nil, &problem.Precondition{What: "directory of bootstrap pods " + dir, Err: err}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, &problem.Precondition{What: "directory of bootstrap pods " + dir, Err: err}
	}
	s = &Store{dir: dir, byKey: map[types.NamespacedName]*Entry{}, reserved: map[types.NamespacedName]bool{}}
	for _, f := range files {
		path := filepath.Join(dir, f.Name())
		if f.IsDir() || filepath.Ext(path) != extension {
			continue // a file that was being written is no pod
		}
		e, err := readFile(path)
		if err == nil && s.byKey[e.Key()] != nil {
			err = fmt.Errorf("pod %s is in %s, too", e.Key(), s.path(s.byKey[e.Key()].Pod.UID))
		}
		if err != nil {
			damaged = append(damaged, fmt.Errorf("bootstrap pod in %s: %w; repair the file or remove it", path, err))
			continue
		}
		s.byKey[e.Key()] = e
	}
	return s, damaged, nil
}

// OnChange has f called for every Change, in order. f must
// return at once and not call the store.
func (s *Store) OnChange(f func(Change)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notify = append(s.notify, f)
}

// List returns all pods, oldest first.
func (s *Store) List() []*Entry {
	s.mu.Lock()
	out := make([]*Entry, 0, len(s.byKey))
	for _, e := range s.byKey {
		out = append(out, e)
	}
	s.mu.Unlock()
	slices.SortFunc(out, func(a, b *Entry) int {
		return cmp.Or(a.Pod.CreationTimestamp.Compare(b.Pod.CreationTimestamp.Time),
			cmp.Compare(a.Key().String(), b.Key().String()))
	})
	return out
}

// Get returns the pod with that UID, be it its own or the server's for it.
func (s *Store) Get(uid types.UID) (*Entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.find(uid)
}

// ByKey returns the pod of that namespace and name.
func (s *Store) ByKey(key types.NamespacedName) (*Entry, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.byKey[key]
	return e, ok
}

func (s *Store) find(uid types.UID) (*Entry, bool) {
	for _, e := range s.byKey {
		if e.Pod.UID == uid || e.ServerUID == uid && uid != "" {
			return e, true
		}
	}
	return nil, false
}

// Create keeps pod, whose UID and name are final.
func (s *Store) Create(pod *corev1.Pod) (*Entry, error) {
	e := &Entry{Pod: pod.DeepCopy()}
	key := e.Key()
	s.mu.Lock()
	if s.byKey[key] != nil || s.reserved[key] {
		s.mu.Unlock()
		return nil, ErrExists
	}
	s.reserved[key] = true
	s.mu.Unlock()

	err := s.write(e) // slow, and of this pod only

	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.reserved, key)
	if err != nil {
		return nil, err
	}
	s.byKey[key] = e
	s.tell(Change{Entry: e, Created: true})
	return e, nil
}

// change replaces the entry of uid by what f makes of a copy. The file is
// written first if f says so.
func (s *Store) change(uid types.UID, f func(e *Entry) (save bool, err error)) (*Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, ok := s.find(uid)
	if !ok {
		return nil, ErrNotFound
	}
	e := *old
	save, err := f(&e)
	if err != nil {
		return old, err
	}
	if save {
		if err := s.write(&e); err != nil {
			return old, err
		}
	}
	s.byKey[e.Key()] = &e
	if e.State == Local && e.Pod != old.Pod {
		s.tell(Change{Entry: &e})
	}
	return &e, nil
}

// SetStatus takes over what the kubelet says of a Local pod. That a pod ended
// outlives the process: it must not run again.
func (s *Store) SetStatus(uid types.UID, status *corev1.PodStatus) (*Entry, error) {
	return s.change(uid, func(e *Entry) (bool, error) {
		if e.State != Local {
			return false, ErrPersisted
		}
		was := e.Pod.Status.Phase
		e.Pod = e.Pod.DeepCopy()
		e.Pod.Status = *status.DeepCopy()
		return ended(status.Phase) && !ended(was), nil
	})
}

func ended(p corev1.PodPhase) bool { return p == corev1.PodSucceeded || p == corev1.PodFailed }

// MarkDeleted asks for the end of a Local pod, with its own grace period.
func (s *Store) MarkDeleted(uid types.UID, now time.Time) (*Entry, error) {
	return s.change(uid, func(e *Entry) (bool, error) {
		switch {
		case e.State != Local:
			return false, ErrPersisted
		case e.Offering:
			return false, ErrBusy
		case e.Pod.DeletionTimestamp != nil:
			return false, nil
		}
		e.Pod = e.Pod.DeepCopy()
		grace := int64(corev1.DefaultTerminationGracePeriodSeconds)
		if g := e.Pod.Spec.TerminationGracePeriodSeconds; g != nil {
			grace = *g
		}
		at := metav1.NewTime(now.Add(time.Duration(grace) * time.Second).Truncate(time.Second))
		e.Pod.DeletionTimestamp, e.Pod.DeletionGracePeriodSeconds = &at, &grace
		return true, nil
	})
}

// BeginOffer claims a Local pod for an offer to the server; EndOffer or
// MarkPersisted gives it back.
func (s *Store) BeginOffer(uid types.UID) (*Entry, error) {
	return s.change(uid, func(e *Entry) (bool, error) {
		switch {
		case e.State != Local:
			return false, ErrPersisted
		case e.Offering || e.Pod.DeletionTimestamp != nil:
			return false, ErrBusy
		}
		e.Offering = true
		return false, nil
	})
}

// EndOffer says how an offer failed, and whether the server may have the pod
// all the same.
func (s *Store) EndOffer(uid types.UID, message string, doubt bool) (*Entry, error) {
	return s.change(uid, func(e *Entry) (bool, error) {
		if e.Offering = false; e.State == Local {
			e.Message, e.Doubt = message, doubt
		}
		return false, nil
	})
}

// MarkPersisted says that the server has the pod, under which UID and since
// which resource version.
func (s *Store) MarkPersisted(uid, serverUID types.UID, resourceVersion string) (*Entry, error) {
	return s.change(uid, func(e *Entry) (bool, error) {
		e.Offering, e.Message, e.Doubt = false, "", false
		if e.State != Local {
			return false, nil
		}
		e.State, e.ServerUID, e.ResourceVersion = Persisted, serverUID, resourceVersion
		return true, nil
	})
}

// MarkSeen says that the server showed the pod. It counts even if it cannot be
// written: then it is found out again by the next process.
func (s *Store) MarkSeen(uid, serverUID types.UID, resourceVersion string) (*Entry, error) {
	_, saveErr := s.MarkPersisted(uid, serverUID, resourceVersion)
	if errors.Is(saveErr, ErrNotFound) {
		return nil, saveErr
	}
	e, err := s.change(uid, func(e *Entry) (bool, error) {
		if e.State == Local {
			e.ServerUID, e.ResourceVersion, e.Message, e.Offering, e.Doubt = serverUID,
				resourceVersion, "", false, false
		}
		e.State = Seen
		return false, nil
	})
	return e, errors.Join(saveErr, err)
}

// Remove forgets a pod.
func (s *Store) Remove(uid types.UID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.find(uid)
	if !ok {
		return ErrNotFound
	}
	if err := os.Remove(s.path(e.Pod.UID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing a bootstrap pod: %w", err)
	}
	delete(s.byKey, e.Key())
	if e.State != Seen {
		s.tell(Change{Entry: e, Removed: true})
	}
	return nil
}

func (s *Store) tell(c Change) {
	for _, f := range s.notify {
		f(c)
	}
}
