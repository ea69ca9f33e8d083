package source

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/internal/atomicfile"
	"github.com/a4s-io/a4s/internal/problem"
)

// Pauses between a change and its way to the disk: a pod that a checkpoint
// lacks would be ended, while a status is told again.
const (
	soon  = 200 * time.Millisecond
	later = 5 * time.Second
)

const (
	podsPath    = "/api/v1/pods"
	classesPath = "/apis/node.k8s.io/v1/runtimeclasses"
)

// resource is a collection that a kubelet needs to start, and what the server
// last said it holds.
type resource struct {
	name string
	gvk  schema.GroupVersionKind // of an item
	list func() runtime.Object

	items map[types.NamespacedName]runtime.Object
	// known says that items are all that a server had.
	known bool
	// version is the resource version that a server of this process last
	// said, empty if none did.
	version  string
	deadline time.Time // when to write it, zero: it is written
}

func newResources() map[string]*resource {
	core := corev1.SchemeGroupVersion
	out := map[string]*resource{
		podsPath:           {name: "pods", gvk: core.WithKind("Pod"), list: func() runtime.Object { return &corev1.PodList{} }},
		nodesPath:          {name: "nodes", gvk: core.WithKind("Node"), list: func() runtime.Object { return &corev1.NodeList{} }},
		"/api/v1/services": {name: "services", gvk: core.WithKind("Service"), list: func() runtime.Object { return &corev1.ServiceList{} }},
		classesPath: {name: "runtimeclasses", gvk: nodev1.SchemeGroupVersion.WithKind("RuntimeClass"),
			list: func() runtime.Object { return &nodev1.RuntimeClassList{} }},
		"/apis/storage.k8s.io/v1/csidrivers": {name: "csidrivers", gvk: storagev1.SchemeGroupVersion.WithKind("CSIDriver"),
			list: func() runtime.Object { return &storagev1.CSIDriverList{} }},
	}
	for _, r := range out {
		r.items = map[types.NamespacedName]runtime.Object{}
	}
	return out
}

// file is what is on disk of a resource.
type file struct {
	Items []runtime.RawExtension `json:"items"`
}

// emptyFile is the content of a checkpoint that says there is nothing.
const emptyFile = `{"items":[]}`

func (s *Source) path(r *resource) string { return filepath.Join(s.Dir, r.name+".json") }

// load reads the checkpoint. Only the pods have to be known: what else is
// missing makes a pod wait at worst.
func (s *Source) load() error {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return &problem.Precondition{What: "directory of the node's checkpoint " + s.Dir, Err: err}
	}
	for _, r := range s.resources {
		switch err := r.read(s.path(r)); {
		case errors.Is(err, fs.ErrNotExist):
			r.known = s.Fresh || r != s.resources[podsPath]
			if !s.Fresh || r != s.resources[podsPath] {
				continue
			}
			// From now on the node remembers what it is told, even if it
			// is nothing.
			if err := r.write(s.path(r)); err != nil {
				return err
			}
		case err != nil:
			r.items = map[types.NamespacedName]runtime.Object{}
			r.known = r != s.resources[podsPath]
			s.Log.WithError(err).Errorf("the node's checkpoint of %s in %s is damaged", r.name, s.path(r))
			if !r.known {
				s.Log.Errorf("pods start when a server was reached; to start without it, which ends the pods that the server gave this node, write %s into the file", emptyFile)
			}
		default:
			r.known = true
		}
	}
	if !s.resources[podsPath].known {
		s.Log.Warn("without a checkpoint of the pods that a server gave this node, no pod starts before a server was reached")
	}
	return nil
}

func (r *resource) read(path string) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return err
	}
	for _, raw := range f.Items {
		obj, got, err := scheme.Codecs.UniversalDeserializer().Decode(raw.Raw, nil, nil)
		if err != nil {
			return err
		}
		if *got != r.gvk {
			return fmt.Errorf("it holds a %s", got)
		}
		key, err := keyOf(obj)
		if err != nil {
			return err
		}
		r.items[key] = obj
	}
	return nil
}

func (r *resource) write(path string) error {
	f := file{Items: []runtime.RawExtension{}}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return errors.New("no serializer for JSON")
	}
	for _, obj := range r.items {
		var raw bytes.Buffer
		if err := info.Serializer.Encode(obj, &raw); err != nil {
			return fmt.Errorf("encoding the checkpoint of %s: %w", r.name, err)
		}
		f.Items = append(f.Items, runtime.RawExtension{Raw: raw.Bytes()})
	}
	data, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encoding the checkpoint of %s: %w", r.name, err)
	}
	return atomicfile.Write(path, append(data, '\n'), 0o600)
}

func keyOf(obj runtime.Object) (types.NamespacedName, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return types.NamespacedName{}, err
	}
	return types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}, nil
}

// kept is what is remembered of an object. The object itself goes on to the
// kubelet and is not touched.
func (r *resource) kept(obj runtime.Object) runtime.Object {
	obj = obj.DeepCopyObject()
	obj.GetObjectKind().SetGroupVersionKind(r.gvk) // which lists leave out
	if m, err := meta.Accessor(obj); err == nil {
		m.SetManagedFields(nil)
	}
	return obj
}

// replace takes over a whole list of the server.
func (s *Source) replace(r *resource, objs []runtime.Object) error {
	items := make(map[types.NamespacedName]runtime.Object, len(objs))
	for _, obj := range objs {
		key, err := keyOf(obj)
		if err != nil {
			return err
		}
		items[key] = r.kept(obj)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r.items, r.known = items, true
	s.mark(r, soon)
	return nil
}

// set takes over one object.
func (s *Source) set(r *resource, key types.NamespacedName, obj runtime.Object) {
	obj = r.kept(obj)
	s.mu.Lock()
	defer s.mu.Unlock()
	pause := later
	if old := r.items[key]; old == nil || matters(old, obj) {
		pause = soon
	}
	r.items[key] = obj
	s.mark(r, pause)
}

// matters tells whether a change decides if a pod runs.
func matters(old, obj runtime.Object) bool {
	a, ok := old.(*corev1.Pod)
	b, isPod := obj.(*corev1.Pod)
	return ok && isPod && (a.UID != b.UID || a.Status.Phase != b.Status.Phase || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil))
}

// drop forgets one object.
func (s *Source) drop(r *resource, key types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(r.items, key)
	s.mark(r, soon)
}

// mark asks for r to be written. The caller holds mu.
func (s *Source) mark(r *resource, pause time.Duration) {
	if at := time.Now().Add(pause); r.deadline.IsZero() || at.Before(r.deadline) {
		r.deadline = at
	}
	select {
	case s.wake <- struct{}{}:
	default: // somebody looks already
	}
}

// writeCheckpoint writes what has changed until ctx ends, and then the rest.
func (s *Source) writeCheckpoint(ctx context.Context) {
	for {
		var due <-chan time.Time
		if next := s.nextDeadline(); !next.IsZero() {
			due = time.After(time.Until(next))
		}
		select {
		case <-ctx.Done():
			s.writeDue(time.Now().Add(later))
			return
		case <-s.wake:
		case <-due:
			s.writeDue(time.Now())
		}
	}
}

func (s *Source) nextDeadline() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	var next time.Time
	for _, r := range s.resources {
		if !r.deadline.IsZero() && (next.IsZero() || r.deadline.Before(next)) {
			next = r.deadline
		}
	}
	return next
}

// writeDue writes the resources whose time has come. Objects are never changed
// once they are remembered, so copies of the maps do.
func (s *Source) writeDue(now time.Time) {
	var due, originals []*resource
	s.mu.Lock()
	for _, r := range s.resources {
		if r.deadline.IsZero() || r.deadline.After(now) {
			continue
		}
		r.deadline = time.Time{}
		snapshot := &resource{name: r.name, gvk: r.gvk, items: make(map[types.NamespacedName]runtime.Object, len(r.items))}
		for key, obj := range r.items {
			snapshot.items[key] = obj
		}
		due, originals = append(due, snapshot), append(originals, r)
	}
	s.mu.Unlock()
	for i, r := range due {
		if err := r.write(s.path(r)); err != nil {
			s.Log.WithError(err).Errorf("cannot write the node's checkpoint of %s; it is tried again", r.name)
			s.mu.Lock()
			s.mark(originals[i], later)
			s.mu.Unlock()
		}
	}
}
