package storage_test

import (
	"context"
	"path"
	"slices"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/apiserver/pkg/registry/generic"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/internal/space"
	storing "github.com/a4s-io/a4s/server/controlplane/apistorage"
	"github.com/a4s-io/a4s/server/controlplane/interning"
	"github.com/a4s-io/a4s/server/tenancy/storage"
	"github.com/a4s-io/a4s/tests/plainetcd"
)

// root is where the API server keeps everything in etcd.
const root = "/registry"

// resource is one resource of the tests, as the API server would set it up.
type resource struct {
	schema.GroupResource
	prefix     string
	namespaced bool
	version    schema.GroupVersion
	newObject  func() runtime.Object
	newList    func() runtime.Object
	triggers   apistorage.IndexerFuncs
}

func configMaps() resource {
	return resource{
		GroupResource: schema.GroupResource{Resource: "configmaps"}, prefix: "/configmaps", namespaced: true,
		version:   corev1.SchemeGroupVersion,
		newObject: func() runtime.Object { return &corev1.ConfigMap{} },
		newList:   func() runtime.Object { return &corev1.ConfigMapList{} },
	}
}

func serviceAccounts() resource {
	return resource{
		GroupResource: schema.GroupResource{Resource: "serviceaccounts"}, prefix: "/serviceaccounts", namespaced: true,
		version:   corev1.SchemeGroupVersion,
		newObject: func() runtime.Object { return &corev1.ServiceAccount{} },
		newList:   func() runtime.Object { return &corev1.ServiceAccountList{} },
	}
}

func volumes() resource {
	return resource{
		GroupResource: schema.GroupResource{Resource: "persistentvolumes"}, prefix: "/persistentvolumes",
		version:   corev1.SchemeGroupVersion,
		newObject: func() runtime.Object { return &corev1.PersistentVolume{} },
		newList:   func() runtime.Object { return &corev1.PersistentVolumeList{} },
	}
}

func namespaces() resource {
	return resource{
		GroupResource: schema.GroupResource{Resource: "namespaces"}, prefix: "/namespaces",
		version:   corev1.SchemeGroupVersion,
		newObject: func() runtime.Object { return &corev1.Namespace{} },
		newList:   func() runtime.Object { return &corev1.NamespaceList{} },
	}
}

func nodes() resource {
	return resource{
		GroupResource: schema.GroupResource{Resource: "nodes"}, prefix: "/minions", version: corev1.SchemeGroupVersion,
		newObject: func() runtime.Object { return &corev1.Node{} },
		newList:   func() runtime.Object { return &corev1.NodeList{} },
	}
}

func clusterRoles() resource {
	return resource{
		GroupResource: schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"},
		prefix:        "/clusterroles", version: rbacv1.SchemeGroupVersion,
		newObject: func() runtime.Object { return &rbacv1.ClusterRole{} },
		newList:   func() runtime.Object { return &rbacv1.ClusterRoleList{} },
	}
}

// getter is the RESTOptionsGetter of upstream, without its flags.
type getter struct{ decorator generic.StorageDecorator }

func (g getter) GetRESTOptions(schema.GroupResource, runtime.Object) (generic.RESTOptions, error) {
	return generic.RESTOptions{Decorator: g.decorator}, nil
}

// store is the storage of one resource over a real etcd.
type store struct {
	apistorage.Interface
	resource
	etcd *clientv3.Client
}

// decorators are the two ways in which the API server stores a resource.
func decorators() map[string]generic.StorageDecorator {
	return map[string]generic.StorageDecorator{
		"cached":   genericregistry.StorageWithCacher(),
		"uncached": generic.UndecoratedStorage,
	}
}

// everyway runs a test with and without the watch cache.
func everyway(t *testing.T, test func(t *testing.T, open func(resource) *store)) {
	for name, decorator := range decorators() {
		t.Run(name, func(t *testing.T) {
			etcd := plainetcd.Run(t)
			test(t, func(r resource) *store {
				return open(t, etcd, r, storage.Decorate(getter{decorator}, storage.Options{Pool: interning.New()}))
			})
		})
	}
}

// open sets a resource up.
func open(t *testing.T, etcd *clientv3.Client, r resource, options generic.RESTOptionsGetter) *store {
	t.Helper()
	opts, err := options.GetRESTOptions(r.GroupResource, r.newObject())
	if err != nil {
		t.Fatal(err)
	}
	format, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		t.Fatal("there is no JSON")
	}
	config := storagebackend.NewDefaultConfig(root,
		scheme.Codecs.CodecForVersions(format.Serializer, scheme.Codecs.UniversalDeserializer(), r.version, r.version))
	config.Transport.ServerList = etcd.Endpoints()
	attrs := apistorage.AttrFunc(apistorage.DefaultClusterScopedAttr)
	if r.namespaced {
		attrs = apistorage.DefaultNamespaceScopedAttr
	}
	s, destroy, err := storing.Maker(opts.Decorator)(storing.Storing{
		Config: config.ForResource(r.GroupResource), Prefix: r.prefix,
		Key: func(obj runtime.Object) (string, error) {
			accessor, err := meta.Accessor(obj)
			if err != nil {
				return "", err
			}
			return r.key(accessor.GetNamespace(), accessor.GetName()), nil
		}, New: r.newObject, NewList: r.newList, Attrs: attrs, Trigger: r.triggers,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(destroy)
	out := &store{Interface: s, resource: r, etcd: etcd}
	if err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 2*time.Minute, true,
		func(context.Context) (bool, error) {
			return s.ReadinessCheck() == nil, nil
		}); err != nil {
		t.Fatal(err)
	}
	return out
}

// key is the composite key of an object, or of a collection without its name.
func (r resource) key(namespace, name string) string {
	if !r.namespaced {
		return path.Join(r.prefix, name)
	}
	return path.Join(r.prefix, namespace, name)
}

// object has a composite name.
func (r resource) object(namespace, name string) runtime.Object {
	obj := r.newObject()
	accessor, err := meta.Accessor(obj)
	if err != nil {
		panic(err) // a test's own type
	}
	accessor.SetNamespace(namespace)
	accessor.SetName(name)
	return obj
}

// create makes an object without addressing a space and returns its version.
func (s *store) create(t *testing.T, namespace, name string) string {
	t.Helper()
	out := s.newObject()
	if err := s.Create(t.Context(), s.key(namespace, name), s.object(namespace, name), out, 0); err != nil {
		t.Fatalf("creating %s %s/%s: %v", s.Resource, namespace, name, err)
	}
	accessor, err := meta.Accessor(out)
	if err != nil {
		t.Fatal(err)
	}
	return accessor.GetResourceVersion()
}

// options are those of a request for a collection.
func (s *store) options(change func(*apistorage.ListOptions)) apistorage.ListOptions {
	attrs := apistorage.AttrFunc(apistorage.DefaultClusterScopedAttr)
	if s.namespaced {
		attrs = apistorage.DefaultNamespaceScopedAttr
	}
	opts := apistorage.ListOptions{Recursive: true, Predicate: apistorage.SelectionPredicate{
		Label: labels.Everything(), Field: fields.Everything(), GetAttrs: attrs,
	}}
	if change != nil {
		change(&opts)
	}
	return opts
}

// list returns what a list has, as namespace/name, and its metadata.
func (s *store) list(
	t *testing.T, ctx context.Context, key string, change func(*apistorage.ListOptions),
) ([]string, metav1.ListInterface) {
	t.Helper()
	found := s.newList()
	if err := s.GetList(ctx, key, s.options(change), found); err != nil {
		t.Fatalf("listing %s: %v", key, err)
	}
	names := []string{}
	if err := meta.EachListItem(found, func(obj runtime.Object) error {
		names = append(names, nameOf(t, obj))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	accessor, err := meta.ListAccessor(found)
	if err != nil {
		t.Fatal(err)
	}
	return names, accessor
}

// watch opens a watch that ends with the test.
func (s *store) watch(
	t *testing.T, ctx context.Context, key string, change func(*apistorage.ListOptions),
) watch.Interface {
	t.Helper()
	w, err := s.Watch(ctx, key, s.options(change))
	if err != nil {
		t.Fatalf("watching %s: %v", key, err)
	}
	t.Cleanup(w.Stop)
	return w
}

// until reads events up to that of the object last and returns all of them.
func until(t *testing.T, w watch.Interface, last string) []string {
	t.Helper()
	var seen []string
	timeout := time.After(2 * time.Minute)
	for {
		select {
		case e, ok := <-w.ResultChan():
			if !ok || e.Type == watch.Error {
				t.Fatalf("the watch ended after %v: %v", seen, e.Object)
			}
			if e.Type == watch.Bookmark {
				continue
			}
			name := nameOf(t, e.Object)
			seen = append(seen, name)
			if name == last {
				return seen
			}
		case <-timeout:
			t.Fatalf("%s was not seen, but %v", last, seen)
		}
	}
}

func nameOf(t *testing.T, obj runtime.Object) string {
	t.Helper()
	if c, ok := obj.(runtime.CacheableObject); ok {
		obj = c.GetObject()
	}
	accessor, err := meta.Accessor(obj)
	if err != nil {
		t.Fatal(err)
	}
	return path.Join(accessor.GetNamespace(), accessor.GetName())
}

// keys are all keys of the resource in etcd.
func (s *store) keys(t *testing.T) []string {
	t.Helper()
	got, err := s.etcd.Get(t.Context(), root+s.prefix+"/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, kv := range got.Kvs {
		keys = append(keys, string(kv.Key))
	}
	return keys
}

// in addresses a space.
func in(t *testing.T, tenant string) context.Context {
	return space.WithTenant(t.Context(), tenant)
}

func same(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}
