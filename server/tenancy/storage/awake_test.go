package storage_test

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sirupsen/logrus"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/server/options"
	apistorage "k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/embedded/kine"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/dsn"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/storage"
	"github.com/a4s-io/a4s/tests/plainetcd"
)

var errScheme = tenantapi.AddToScheme(scheme.Scheme)

// tenancy is the storage of tenants.
type tenancy struct{ *store }

func tenants(t *testing.T, etcd *clientv3.Client, connections *storage.Connections) tenancy {
	t.Helper()
	if errScheme != nil {
		t.Fatal(errScheme)
	}
	etcdOptions := options.NewEtcdOptions(storagebackend.NewDefaultConfig(root, nil))
	etcdOptions.StorageConfig.Transport.ServerList = etcd.Endpoints()
	return tenancy{open(t, etcd, resource{
		GroupResource: tenantapi.GroupResource(), prefix: "/tenants", version: tenantapi.GroupVersion(),
		newObject: func() runtime.Object { return &tenantapi.Tenant{} },
		newList:   func() runtime.Object { return &tenantapi.TenantList{} },
	}, connections.Builtin(&options.StorageFactoryRestOptionsFactory{
		Options:        *etcdOptions,
		StorageFactory: &options.SimpleStorageFactory{StorageConfig: etcdOptions.StorageConfig},
	}))}
}

// make makes a tenant that is dormant, or used from the beginning.
func (s tenancy) make(t *testing.T, name string, dormant bool) {
	t.Helper()
	tenant := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if dormant {
		tenant.Status.Conditions = []metav1.Condition{tenantapi.DormantCondition(metav1.Now())}
	}
	if err := s.Create(t.Context(), s.key("", name), tenant, &tenantapi.Tenant{}, 0); err != nil {
		t.Fatal(err)
	}
}

func (s tenancy) change(t *testing.T, name string, change func(*tenantapi.Tenant)) {
	t.Helper()
	if err := s.GuaranteedUpdate(t.Context(), s.key("", name), &tenantapi.Tenant{}, false, nil,
		apistorage.SimpleUpdate(func(obj runtime.Object) (runtime.Object, error) {
			change(obj.(*tenantapi.Tenant))
			return obj, nil
		}), nil); err != nil {
		t.Fatal(err)
	}
}

func use(tenant *tenantapi.Tenant) {
	tenant.Status.Conditions = []metav1.Condition{tenantapi.MadeCondition()}
}

// selects has a list be of the tenants that are not dormant.
func selects(o *apistorage.ListOptions) {
	o.Predicate.Field = fields.OneTermEqualSelector(tenantapi.SelectDormant, "false")
	o.Predicate.GetAttrs = func(obj runtime.Object) (labels.Set, fields.Set, error) {
		return nil, fields.Set{tenantapi.SelectDormant: fmt.Sprint(obj.(*tenantapi.Tenant).Dormant())}, nil
	}
}

// awake lists the tenants that are not dormant in pages.
func (s tenancy) awake(t *testing.T, page int64) (names []string, version string) {
	t.Helper()
	for next := ""; ; {
		found, list := s.list(t, t.Context(), "/tenants/", func(o *apistorage.ListOptions) {
			selects(o)
			o.Predicate.Limit, o.Predicate.Continue = page, next
		})
		if page > 0 && len(found) > int(page) {
			t.Errorf("a page of %d has %q", page, found)
		}
		names, version = append(names, found...), list.GetResourceVersion()
		if next = list.GetContinue(); next == "" {
			return names, version
		}
	}
}

// marked checks how many keys say that the space of a tenant is to be made.
func (tenancy) marked(t *testing.T, etcd *clientv3.Client, name string, want int64) {
	t.Helper()
	r, err := etcd.Get(t.Context(), "/a4s/awaited-tenants/"+name)
	if err != nil || r.Count != want {
		t.Errorf("%s has %d marks, want %d: %v", name, r.Count, want, err)
	}
}

// TestTenantsThatAreAwake: a list of the tenants that are not dormant has them all, and
// does not read those that nobody has written since they were made.
func TestTenantsThatAreAwake(t *testing.T) {
	etcd, server := plainetcd.Start(t)
	for name, connections := range map[string]*storage.Connections{
		"connected":       {},
		"without streams": {Local: localStorage(server, etcd.Endpoints())},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := etcd.Delete(t.Context(), "/", clientv3.WithPrefix()); err != nil {
				t.Fatal(err)
			}
			s := tenants(t, etcd, connections)
			s.make(t, "system", false)
			for i := range 50 {
				s.make(t, fmt.Sprintf("sleeps-%02d", i), true)
			}
			put := func(key, value string) {
				t.Helper()
				if _, err := etcd.Put(t.Context(), root+key, value); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"used", "used-again", "edited", "sleeps-17"} {
				if name != "sleeps-17" {
					s.make(t, name, true)
				}
				if name != "edited" {
					s.change(t, name, use)
				}
			}
			s.change(t, "edited", func(tenant *tenantapi.Tenant) { tenant.Labels = map[string]string{"a": "b"} })
			// Its key came from another etcd, which does not bring its version.
			s.make(t, "copied", false)
			put("/namespaces/copied/default", "a namespace")
			put("/namespaces/of-the-system", "another")
			// Its server ended before it made its space.
			s.make(t, "awaited", false)
			applied := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "applied"}}
			if err := s.GuaranteedUpdate(t.Context(), s.key("", "applied"), &tenantapi.Tenant{}, true, nil,
				apistorage.SimpleUpdate(func(runtime.Object) (runtime.Object, error) { return applied, nil }),
				nil); err != nil {
				t.Fatal(err)
			}

			want := []string{"applied", "awaited", "copied", "sleeps-17", "system", "used", "used-again"}
			for _, page := range []int64{1, 2, 3, 5, 100} {
				got, _ := s.awake(t, page)
				same(t, fmt.Sprintf("pages of %d", page), got, want...)
			}

			if connections.Local == nil {
				put("/tenants/unread", "nobody can read this")
			}
			got, version := s.awake(t, 100)
			same(t, "beside one that nobody can read", got, want...)
			s.marked(t, etcd, "awaited", 1)
			s.marked(t, etcd, "sleeps-01", 0)
			if err := s.Delete(t.Context(), s.key("", "awaited"), &tenantapi.Tenant{}, nil,
				func(context.Context, runtime.Object) error { return nil }, nil,
				apistorage.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			s.marked(t, etcd, "awaited", 0)
			_, version = s.awake(t, 100)
			w := s.watch(t, t.Context(), "/tenants", func(o *apistorage.ListOptions) {
				selects(o)
				o.ResourceVersion = version
			})
			s.change(t, "sleeps-03", use)
			same(t, "since the list", until(t, w, "sleeps-03"), "sleeps-03")
			if got, _ = s.awake(t, 100); !slices.Contains(got, "sleeps-03") {
				t.Errorf("a list has %q", got)
			}
			if connections.Local != nil {
				return
			}
			// Others read them.
			if err := s.GetList(t.Context(), "/tenants/", s.options(nil), s.newList()); err == nil {
				t.Error("a list of all tenants has passed over one that cannot be read")
			}
		})
	}
}

// TestMostTenantsAreAwake: where it does not help to read keys first, the list is the same.
func TestMostTenantsAreAwake(t *testing.T) {
	etcd := plainetcd.Run(t)
	s := tenants(t, etcd, &storage.Connections{})
	s.make(t, "system", false)
	want := []string{"system"}
	for i := range 10 {
		name := fmt.Sprintf("used-%d", i)
		s.make(t, name, true)
		s.make(t, "sleeps-"+name, true)
		s.change(t, name, use)
		want = append(want, name)
	}
	got, version := s.awake(t, 3)
	same(t, "pages", got, want...)
	w := s.watch(t, t.Context(), "/tenants", func(o *apistorage.ListOptions) {
		selects(o)
		o.ResourceVersion = version
	})
	s.change(t, "sleeps-used-7", use)
	same(t, "since the list", until(t, w, "sleeps-used-7"), "sleeps-used-7")
}

// TestMarksInADatabase: kine, which is in front of databases, does not know all that etcd does.
func TestMarksInADatabase(t *testing.T) {
	dir := t.TempDir()
	endpoint, err := dsn.Parse("sqlite://" + filepath.Join(dir, "x.db"))
	if err != nil {
		t.Fatal(err)
	}
	log := logrus.NewEntry(logrus.StandardLogger())
	server, err := kine.New(kine.Options{Endpoint: endpoint, Path: endpoint.Path, Socket: filepath.Join(dir, "s"),
		Log: log})
	if err != nil {
		t.Fatal(err)
	}
	group := component.NewGroup(log)
	if err := group.StartAndWait(t.Context(), server.Component()); err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"unix://" + filepath.Join(dir, "s")}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		if err := group.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := tenants(t, client, &storage.Connections{})
	s.make(t, "awaited", false)
	s.marked(t, client, "awaited", 1)
	for _, name := range []string{"awaited", "sleeps"} {
		if name == "sleeps" {
			s.make(t, name, true)
		}
		if err := s.Delete(t.Context(), s.key("", name), &tenantapi.Tenant{}, nil,
			func(context.Context, runtime.Object) error { return nil }, nil, apistorage.DeleteOptions{}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.marked(t, client, name, 0)
	}
}
