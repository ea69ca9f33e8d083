package limits

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"sync"

	clientv3 "go.etcd.io/etcd/client/v3"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdinformers "k8s.io/apiextensions-apiserver/pkg/client/informers/externalversions/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/tenants/contents"
)

// perPage is how many keys of one resource are read at once.
const perPage = 500

// anyLayout is that of a resource of which only the name is known: a key says
// by its segments what it is of.
const anyLayout space.Layout = -1

// Contents is what the datastore has of a tenant, of every resource of which
// it has something.
func (l *Limits) Contents(ctx context.Context, tenant string) ([]contents.Resource, error) {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	found, err := l.keys.contents(ctx, tenant)
	if err != nil {
		return nil, fmt.Errorf("looking for the objects of tenant %s: %w", tenant, err)
	}
	return found, nil
}

// Drop takes objects of a tenant out of the datastore. It is for those that no
// API serves: nobody else can delete them.
func (l *Limits) Drop(ctx context.Context, tenant string, r contents.Resource) error {
	ctx, cancel := context.WithTimeout(ctx, countTimeout)
	defer cancel()
	client, root, _, err := l.keys.places()
	if err != nil {
		return err
	}
	prefix := path.Join("/", root, r.Group, r.Resource)
	for _, o := range r.Objects {
		layout, key := space.ClusterScoped, prefix+"/"+o.Name
		if r.Namespaced {
			layout, key = space.Namespaced, prefix+"/"+o.Namespace+"/"+o.Name
		}
		key = space.StoredKey(layout, prefix, key)
		if !strings.HasPrefix(key, space.TenantPrefix(prefix, tenant)) {
			return fmt.Errorf("dropping %s %s: it is not of tenant %s", r.GroupResource, o, tenant)
		}
		if _, err := client.Delete(ctx, key); err != nil {
			return fmt.Errorf("dropping %s %s: %w", r.GroupResource, o, err)
		}
	}
	return nil
}

// remover takes what is stored out of the datastore.
type remover struct{ keys *keys }

// Remove takes the objects of a resource out of the datastore for which which returns
// true of what is stored, and returns how many there were. It is for custom resources that
// cannot be read as objects. What is written meanwhile stays.
func (m remover) Remove(
	ctx context.Context, tenant string, r contents.Resource, which func(stored []byte) bool,
) (n int64, err error) {
	if n, err = m.keys.remove(ctx, tenant, r, which); err != nil {
		return n, fmt.Errorf("removing %s of tenant %s: %w", r.GroupResource, tenant, err)
	}
	return n, nil
}

func (k *keys) remove(
	ctx context.Context, tenant string, r contents.Resource, which func(stored []byte) bool,
) (n int64, err error) {
	client, root, _, err := k.places()
	if err != nil {
		return 0, err
	}
	layout := space.ClusterScoped
	if r.Namespaced {
		layout = space.Namespaced
	}
	p := place{stored{resource: r.GroupResource, layout: layout}, path.Join("/", root, r.Group, r.Resource)}
	k.mu.Lock()
	if known := k.resources[p.prefix]; known != nil {
		p.plain = known.plain
	}
	k.mu.Unlock()
	of := space.TenantPrefix(p.prefix, tenant)
	for from := of; ; {
		page, err := client.Get(ctx, from, clientv3.WithRange(clientv3.GetPrefixRangeEnd(of)),
			clientv3.WithLimit(perPage))
		if err != nil {
			return n, err
		}
		for _, kv := range page.Kvs {
			key, value := string(kv.Key), kv.Value
			if p.plain != nil {
				if value, err = p.plain(ctx, key, value); err != nil {
					return n, err
				}
			}
			if _, ok := p.object(tenant, strings.TrimPrefix(key, of)); !ok || !isOf(tenant, value) || !which(value) {
				continue
			}
			done, err := client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", kv.ModRevision)).
				Then(clientv3.OpDelete(key)).Commit()
			if err != nil {
				return n, err
			}
			if done.Succeeded {
				n++
			}
		}
		if !page.More {
			return n, nil
		}
		from = string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
	}
}

// isOf reports whether a stored custom resource says that it is a tenant's. A key alone
// can be that of an object in a namespace of the system, too.
func isOf(tenant string, value []byte) bool {
	var stored struct {
		Metadata struct{ Name, Namespace string }
	}
	if json.Unmarshal(value, &stored) != nil {
		return false
	}
	of, _ := space.SplitClusterName(stored.Metadata.Name)
	if stored.Metadata.Namespace != "" {
		of, _ = space.SplitNamespace(stored.Metadata.Namespace)
	}
	return of == tenant
}

// Watch makes the system's custom resources known. Their storage comes to be
// with the first request for them, their keys may be there before.
func (l *Limits) Watch(informer crdinformers.CustomResourceDefinitionInformer) {
	known := map[string]func(){} // by name; events come one at a time
	set := func(obj any, there bool) {
		if late, ok := obj.(cache.DeletedFinalStateUnknown); ok {
			obj = late.Obj
		}
		crd, ok := obj.(*apiextensionsv1.CustomResourceDefinition)
		if !ok || there == (known[crd.Name] != nil) {
			return
		}
		if tenant, _ := space.SplitClusterName(crd.Name); !space.IsSystem(tenant) {
			return // of whom it is is found by its key
		}
		if !there {
			known[crd.Name]()
			delete(known, crd.Name)
			return
		}
		layout := space.ClusterScoped
		if crd.Spec.Scope == apiextensionsv1.NamespaceScoped {
			layout = space.Namespaced
		}
		known[crd.Name] = l.keys.know(stored{
			resource: schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}, layout: layout,
			counts: true, belongs: true, custom: true,
		}, crd.Spec.Group+"/"+crd.Spec.Names.Plural)
	}
	//nolint:errcheck // it fails for an informer that has stopped only
	informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { set(obj, true) },
		DeleteFunc: func(obj any) { set(obj, false) },
	})
}

// place is where a resource is in the datastore.
type place struct {
	stored
	prefix string
}

func (k *keys) contents(ctx context.Context, tenant string) ([]contents.Resource, error) {
	client, root, places, err := k.places()
	if err != nil {
		return nil, err
	}
	unknown := sync.OnceValues(func() (space.Layout, error) {
		// The keys of a namespace of the system with this name look like those
		// of cluster-scoped objects.
		like, err := client.Get(ctx, path.Join("/", root, "namespaces", tenant), clientv3.WithCountOnly())
		if err != nil || like.Count > 0 {
			return space.Namespaced, err
		}
		return anyLayout, nil
	})
	for i := range places {
		if places[i].layout == anyLayout {
			if places[i].layout, err = unknown(); err != nil {
				return nil, err
			}
		}
	}
	found, err := read(ctx, client, tenant, places)
	if err != nil {
		return nil, err
	}
	// The instances of the tenant's own CRDs, whoever has or has not
	// begun to serve them.
	var own []place
	for _, r := range found {
		if r.GroupResource != (schema.GroupResource{Group: apiextensionsv1.GroupName,
			Resource: "customresourcedefinitions"}) {
			continue
		}
		for _, o := range r.Objects {
			_, native := space.SplitClusterName(o.Name)
			if plural, group, ok := strings.Cut(native, "."); ok {
				layout, err := unknown()
				if err != nil {
					return nil, err
				}
				of := stored{resource: schema.GroupResource{Group: group, Resource: plural}, layout: layout}
				own = append(own, place{of, path.Join("/", root, group, plural)})
			}
		}
	}
	if len(own) == 0 {
		return found, nil
	}
	instances, err := read(ctx, client, tenant, own)
	if err != nil {
		return nil, err
	}
	for _, r := range found {
		if !isInstance(own, r.GroupResource) {
			instances = append(instances, r)
		}
	}
	return instances, nil
}

func isInstance(own []place, r schema.GroupResource) bool {
	for _, p := range own {
		if p.resource == r {
			return true
		}
	}
	return false
}

// places are those of all resources.
func (k *keys) places() (client *clientv3.Client, root string, all []place, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if client, err = k.connect(); err != nil {
		return nil, "", nil, err
	}
	for prefix, s := range k.resources {
		all = append(all, place{*s, prefix})
	}
	return client, k.root, all, nil
}

// read reads the keys of a tenant at several places, as far as a page goes.
func read(ctx context.Context, client *clientv3.Client, tenant string, places []place) ([]contents.Resource, error) {
	var out []contents.Resource
	for len(places) > 0 {
		some := places[:min(perTxn, len(places))]
		places = places[len(some):]
		ops := make([]clientv3.Op, len(some))
		for i, p := range some {
			of := space.TenantPrefix(p.prefix, tenant)
			ops[i] = clientv3.OpGet(of, clientv3.WithPrefix(), clientv3.WithKeysOnly(), clientv3.WithLimit(perPage))
		}
		answer, err := client.Txn(ctx).Then(ops...).Commit()
		if err != nil {
			return nil, err
		}
		for i, r := range answer.Responses {
			found, err := some[i].read(ctx, client, tenant, (*clientv3.GetResponse)(r.GetResponseRange()))
			if err != nil {
				return nil, err
			}
			out = append(out, found...)
		}
	}
	return out, nil
}

// read makes objects of a page of keys. Where a namespace of the system has the
// tenant's name, pages with nothing but its keys are read over.
func (p place) read(
	ctx context.Context, client *clientv3.Client, tenant string, page *clientv3.GetResponse,
) ([]contents.Resource, error) {
	of := space.TenantPrefix(p.prefix, tenant)
	namespaced, others := contents.Resource{GroupResource: p.resource, Namespaced: true},
		contents.Resource{GroupResource: p.resource}
	var foreign bool
	for len(page.Kvs) > 0 {
		for _, kv := range page.Kvs {
			switch o, ok := p.object(tenant, strings.TrimPrefix(string(kv.Key), of)); {
			case !ok:
				foreign = true
			case o.Namespace != "":
				namespaced.Objects = append(namespaced.Objects, o)
			default:
				others.Objects = append(others.Objects, o)
			}
		}
		if !page.More || len(namespaced.Objects)+len(others.Objects) > 0 {
			break
		}
		next := string(page.Kvs[len(page.Kvs)-1].Key) + "\x00"
		var err error
		if page, err = client.Get(ctx, next, clientv3.WithRange(clientv3.GetPrefixRangeEnd(of)),
			clientv3.WithKeysOnly(), clientv3.WithLimit(perPage)); err != nil {
			return nil, err
		}
	}
	var out []contents.Resource
	for _, r := range []contents.Resource{namespaced, others} {
		if len(r.Objects) == 0 {
			continue
		}
		r.Count, r.More = int64(len(r.Objects)), page.More
		if !foreign && p.layout != anyLayout {
			r.Count = page.Count
		}
		out = append(out, r)
	}
	return out, nil
}

// object is the composite name for what a key has below the tenant's prefix,
// unless the key is not the tenant's.
func (p place) object(tenant, rest string) (contents.Object, bool) {
	first, name, deep := strings.Cut(rest, "/")
	switch {
	case deep && (p.layout == space.Namespaced || p.layout == anyLayout):
		return contents.Object{Namespace: space.Namespace(tenant, first), Name: name}, true
	case deep || p.layout == space.Namespaced:
		return contents.Object{}, false
	case p.layout == space.Namespaces:
		return contents.Object{Name: space.Namespace(tenant, first)}, true
	}
	return contents.Object{Name: space.ClusterName(tenant, first)}, true
}
