package limits

import (
	"context"
	"fmt"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/apistorage"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	tenantstorage "github.com/a4s-io/a4s/server/tenancy/storage"
)

// Storage counts what is created and deleted through inner, which knows the
// keys of tenants.
func (l *Limits) Storage(inner generic.RESTOptionsGetter) generic.RESTOptionsGetter {
	return &getter{inner: inner, limits: l, kinds: kinds.New()}
}

// Close ends the connection to the datastore. Nothing may be counted any more.
func (l *Limits) Close() { l.keys.close() }

type getter struct {
	inner  generic.RESTOptionsGetter
	limits *Limits
	kinds  *kinds.Table
}

// GetRESTOptions implements generic.RESTOptionsGetter.
func (g *getter) GetRESTOptions(resource schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	opts, err := g.inner.GetRESTOptions(resource, example)
	if err != nil {
		return opts, err
	}
	k, builtin := g.kinds.Resource(resource.Group, resource.Resource)
	belongs := !builtin || k.Class == kinds.Tenant
	inner := apistorage.Maker(opts.Decorator)
	opts.Decorator = apistorage.Make(func(s apistorage.Storing) (storage.Interface, factory.DestroyFunc, error) {
		layout, err := tenantstorage.LayoutOf(resource, s.Key, s.New)
		if err != nil {
			return nil, nil, fmt.Errorf("finding the layout of %s: %w", resource, err)
		}
		made, destroy, err := inner(s)
		if err != nil {
			return made, destroy, err
		}
		of := stored{resource: resource, layout: layout, counts: belongs && !exempt(resource), belongs: belongs,
			custom: !builtin, decode: decoder(s.Config), plain: decrypter(s.Config)}
		remove := g.limits.keys.add(s.Config, s.Prefix, of)
		gone := func() { remove(); destroy() }
		if !belongs {
			return made, gone, nil
		}
		return &limited{Interface: made, limits: g.limits, stored: of, prefix: s.Prefix,
			root: path.Join("/", s.Config.Prefix), codec: s.Config.Codec}, gone, nil
	}).Decorator()
	return opts, nil
}

// decoder reads what a storage writes.
func decoder(config *storagebackend.ConfigForResource) func(context.Context, string, []byte) (runtime.Object, error) {
	plain := decrypter(config)
	return func(ctx context.Context, key string, data []byte) (runtime.Object, error) {
		data, err := plain(ctx, key, data)
		if err != nil {
			return nil, err
		}
		return runtime.Decode(config.Codec, data)
	}
}

// decrypter undoes the encryption of a storage.
func decrypter(config *storagebackend.ConfigForResource) func(context.Context, string, []byte) ([]byte, error) {
	return func(ctx context.Context, key string, data []byte) ([]byte, error) {
		if config.Transformer == nil {
			return data, nil
		}
		data, _, err := config.Transformer.TransformFromStorage(ctx, data, value.DefaultContext(key))
		return data, err
	}
}

// exempt are the objects that do not count as such: events go by themselves and
// are how a refusal is told, and without leases controllers would stand still.
// What they take in the datastore counts.
func exempt(r schema.GroupResource) bool {
	return isEvents(r) || r == schema.GroupResource{Group: "coordination.k8s.io", Resource: "leases"}
}

// isEvents tells Kubernetes' events from what a tenant may call so.
func isEvents(r schema.GroupResource) bool {
	return r == schema.GroupResource{Resource: "events"} ||
		r == schema.GroupResource{Group: "events.k8s.io", Resource: "events"}
}

// limited is the storage of one resource.
type limited struct {
	storage.Interface
	stored
	limits *Limits
	prefix string
	root   string
	codec  runtime.Codec
}

// split finds the tenant and the name in a composite key.
func (s *limited) split(key string) (tenant, name string) {
	rest := strings.Trim(strings.TrimPrefix(key, s.prefix), "/")
	first, name, _ := strings.Cut(rest, "/")
	switch s.layout {
	case space.ClusterScoped:
		tenant, _ = space.SplitClusterName(rest)
		return tenant, rest
	case space.Namespaces:
		tenant, _ = space.SplitNamespace(first)
		return tenant, first
	}
	tenant, _ = space.SplitNamespace(first)
	return tenant, name
}

// Create implements storage.Interface.
func (s *limited) Create(ctx context.Context, key string, obj, out runtime.Object, ttl uint64) error {
	w := s.write(ctx, key)
	if w == nil {
		return s.Interface.Create(ctx, key, obj, out, ttl)
	}
	if err := w.reserve(ctx, before{}, obj); err != nil {
		return err
	}
	err := s.Interface.Create(ctx, key, obj, out, ttl)
	w.done(out, err)
	s.wrote(w.tenant, err)
	return err
}

// GuaranteedUpdate implements storage.Interface. It creates too: server-side
// apply, and for some kinds update.
func (s *limited) GuaranteedUpdate(ctx context.Context, key string, destination runtime.Object, ignoreNotFound bool,
	preconditions *storage.Preconditions, tryUpdate storage.UpdateFunc, cached runtime.Object,
) error {
	w := s.write(ctx, key)
	if w == nil {
		return s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions, tryUpdate, cached)
	}
	err := s.Interface.GuaranteedUpdate(ctx, key, destination, ignoreNotFound, preconditions,
		func(input runtime.Object, meta storage.ResponseMeta) (runtime.Object, *uint64, error) {
			// Another attempt: admission is asked again and takes its time.
			w.release()
			was := before{}
			if meta.ResourceVersion != 0 {
				was = lookAt(input) // now: tryUpdate may change it
			}
			out, ttl, err := tryUpdate(input, meta)
			if err != nil {
				return out, ttl, err
			}
			if err := w.reserve(ctx, was, out); err != nil {
				return nil, nil, err
			}
			return out, ttl, nil
		}, cached)
	w.done(destination, err)
	s.wrote(w.tenant, err)
	return err
}

// Delete implements storage.Interface.
func (s *limited) Delete(ctx context.Context, key string, out runtime.Object, preconditions *storage.Preconditions,
	validate storage.ValidateObjectFunc, cached runtime.Object, opts storage.DeleteOptions,
) error {
	err := s.Interface.Delete(ctx, key, out, preconditions, validate, cached, opts)
	tenant, _ := s.split(key)
	if err != nil || space.IsSystem(tenant) {
		return err
	}
	s.wrote(tenant, nil)
	if revision, err := s.Versioner().ObjectResourceVersion(out); err == nil && revision > 0 {
		s.limits.accounting.remove(tenant, s.storedKey(key), int64(revision))
	}
	return nil
}

// storedKey is the key in the datastore.
func (s *limited) storedKey(key string) string {
	return s.root + "/" + strings.TrimPrefix(space.StoredKey(s.layout, s.prefix, key), "/")
}

// belongsToSpace says what a4s and Kubernetes make in every space and every
// namespace, and could not do without. It counts, but is never refused.
func (s *limited) belongsToSpace(name string) bool {
	switch s.resource {
	case schema.GroupResource{Resource: "namespaces"}:
		_, native := space.SplitNamespace(name)
		return native == "default" || native == "kube-system" || native == "kube-public"
	case schema.GroupResource{Resource: "serviceaccounts"}:
		return name == "default"
	case schema.GroupResource{Resource: "configmaps"}:
		return name == "kube-root-ca.crt"
	case schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterroles"}:
		_, native := space.SplitClusterName(name)
		return native == "admin-role"
	case schema.GroupResource{Group: "rbac.authorization.k8s.io", Resource: "clusterrolebindings"}:
		_, native := space.SplitClusterName(name)
		return native == "admin-role-binding"
	}
	return false
}
