package origin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/agent/origin/objectfile"
	"github.com/a4s-io/a4s/internal/problem"
)

var (
	classResource  = nodev1.SchemeGroupVersion.WithResource("runtimeclasses")
	driverResource = storagev1.SchemeGroupVersion.WithResource("csidrivers")
)

// checkpoint has the five collections that a kubelet needs to start anything, as
// a server last said them. It is on disk, too.
type checkpoint struct {
	dir   string
	fresh bool // no server ever gave this node a pod
	log   *logrus.Entry

	pending   *objectfile.Pending[*resource]
	resources map[schema.GroupVersionResource]*resource // the map never changes

	mu sync.Mutex // guards the content of the resources, and the node
	// node is the one that the kubelet asked to create before there was a
	// server. registering is closed when it did for the first time.
	node        *corev1.Node
	registering chan struct{}
}

func openCheckpoint(dir string, fresh bool, log *logrus.Entry) (*checkpoint, error) {
	c := &checkpoint{
		dir: dir, fresh: fresh, log: log, resources: newResources(),
		pending: objectfile.NewPending[*resource](), registering: make(chan struct{}),
	}
	return c, c.load()
}

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
	version string
}

func newResources() map[schema.GroupVersionResource]*resource {
	of := func(gvr schema.GroupVersionResource, kind string, list func() runtime.Object) *resource {
		return &resource{
			name: gvr.Resource, gvk: gvr.GroupVersion().WithKind(kind), list: list,
			items: map[types.NamespacedName]runtime.Object{},
		}
	}
	return map[schema.GroupVersionResource]*resource{
		podsResource:   of(podsResource, "Pod", func() runtime.Object { return &corev1.PodList{} }),
		nodeResource:   of(nodeResource, "Node", func() runtime.Object { return &corev1.NodeList{} }),
		svcResource:    of(svcResource, "Service", func() runtime.Object { return &corev1.ServiceList{} }),
		classResource:  of(classResource, "RuntimeClass", func() runtime.Object { return &nodev1.RuntimeClassList{} }),
		driverResource: of(driverResource, "CSIDriver", func() runtime.Object { return &storagev1.CSIDriverList{} }),
	}
}

func (c *checkpoint) path(r *resource) string { return filepath.Join(c.dir, r.name+".json") }

// load reads the checkpoint. Only the pods have to be known: what else is
// missing makes a pod wait at worst.
func (c *checkpoint) load() error {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return &problem.Precondition{What: "directory of the node's checkpoint " + c.dir, Err: err}
	}
	for _, r := range c.resources {
		switch err := r.read(c.path(r)); {
		case errors.Is(err, fs.ErrNotExist):
			r.known = c.fresh || r != c.resources[podsResource]
			if !c.fresh || r != c.resources[podsResource] {
				continue
			}
			// From now on there is a checkpoint, even if it is empty.
			if err := c.write(r); err != nil {
				return err
			}
		case err != nil:
			r.items = map[types.NamespacedName]runtime.Object{}
			r.known = r != c.resources[podsResource]
			c.log.WithError(err).Errorf("the node's checkpoint of %s in %s is damaged", r.name, c.path(r))
			if !r.known {
				c.log.Errorf("pods start when a server was reached; to start without it, "+
					"which ends the pods that the server gave this node, write %s into the file", objectfile.Empty)
			}
		default:
			r.known = true
		}
	}
	if !c.resources[podsResource].known {
		c.log.Warn("without a checkpoint of the pods that a server gave this node, " +
			"no pod starts before a server was reached")
	}
	return nil
}

func (r *resource) read(path string) error {
	objs, err := objectfile.Read(path, r.gvk)
	if err != nil {
		return err
	}
	for _, obj := range objs {
		key, err := keyOf(obj)
		if err != nil {
			return err
		}
		r.items[key] = obj
	}
	return nil
}

// write puts a resource on the disk. Objects are never changed once they are remembered.
func (c *checkpoint) write(r *resource) error {
	c.mu.Lock()
	objs := make([]runtime.Object, 0, len(r.items))
	for _, obj := range r.items {
		objs = append(objs, obj)
	}
	c.mu.Unlock()
	if err := objectfile.Write(c.path(r), objs); err != nil {
		return fmt.Errorf("writing the checkpoint of %s: %w", r.name, err)
	}
	return nil
}

func keyOf(obj runtime.Object) (types.NamespacedName, error) {
	m, err := meta.Accessor(obj)
	if err != nil {
		return types.NamespacedName{}, err
	}
	return types.NamespacedName{Namespace: m.GetNamespace(), Name: m.GetName()}, nil
}

// kept is the copy of an object in the checkpoint. The object itself goes on to
// the kubelet.
func (r *resource) kept(obj runtime.Object) runtime.Object {
	obj = obj.DeepCopyObject()
	obj.GetObjectKind().SetGroupVersionKind(r.gvk) // which lists leave out
	if m, err := meta.Accessor(obj); err == nil {
		m.SetManagedFields(nil)
	}
	return obj
}

// replace takes over a whole list of the server.
func (c *checkpoint) replace(r *resource, objs []runtime.Object) error {
	items := make(map[types.NamespacedName]runtime.Object, len(objs))
	for _, obj := range objs {
		key, err := keyOf(obj)
		if err != nil {
			return err
		}
		items[key] = r.kept(obj)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	r.items, r.known = items, true
	c.pending.Mark(r, objectfile.Soon)
	return nil
}

// set takes over one object.
func (c *checkpoint) set(r *resource, key types.NamespacedName, obj runtime.Object) {
	obj = r.kept(obj)
	c.mu.Lock()
	defer c.mu.Unlock()
	pause := objectfile.Later
	if old := r.items[key]; old == nil || objectfile.Matters(old, obj) {
		pause = objectfile.Soon
	}
	r.items[key] = obj
	c.pending.Mark(r, pause)
}

// drop forgets one object.
func (c *checkpoint) drop(r *resource, key types.NamespacedName) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(r.items, key)
	c.pending.Mark(r, objectfile.Soon)
}

// run writes what has changed until ctx ends, and then the rest.
func (c *checkpoint) run(ctx context.Context) {
	c.pending.Run(ctx, func(r *resource) {
		if err := c.write(r); err != nil {
			c.log.WithError(err).Errorf("cannot write the node's checkpoint of %s; it is tried again", r.name)
			c.pending.Mark(r, objectfile.Later)
		}
	})
}

// pod returns a pod as a server last said it, nil if none did. It must not be
// changed.
func (c *checkpoint) pod(key types.NamespacedName) *corev1.Pod {
	c.mu.Lock()
	defer c.mu.Unlock()
	pod, _ := c.resources[podsResource].items[key].(*corev1.Pod)
	return pod
}

// class is pod for a RuntimeClass.
func (c *checkpoint) class(name string) runtime.Object {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.resources[classResource].items[types.NamespacedName{Name: name}]
}

// all returns copies of the objects of r, and whether they are all that a server
// had.
func (c *checkpoint) all(r *resource) (objs []runtime.Object, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	objs = make([]runtime.Object, 0, len(r.items))
	for _, obj := range r.items {
		objs = append(objs, obj.DeepCopyObject())
	}
	return objs, r.known
}

// followedTo returns the version up to which a server of this process was
// followed, empty if none was.
func (c *checkpoint) followedTo(r *resource) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return r.version
}

// reached takes note of how far a server was followed.
func (c *checkpoint) reached(r *resource, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r.version = version
}
