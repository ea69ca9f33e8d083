package controlplane_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/databases"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

func TestControlPlaneOnSQLite(t *testing.T) {
	if nstest.Isolate(t) {
		testControlPlane(t, func(cfg *config.Server) { cfg.DatastoreEndpoint = "sqlite" })
	}
}

func TestControlPlaneOnPostgreSQL(t *testing.T) {
	if nstest.Isolate(t) {
		endpoint := databases.StartPostgreSQL(t).Endpoint("cluster")
		testControlPlane(t, func(cfg *config.Server) { cfg.DatastoreEndpoint = endpoint })
	}
}

func TestControlPlaneOnMariaDB(t *testing.T) {
	if nstest.Isolate(t) {
		endpoint := databases.StartMariaDB(t)
		testControlPlane(t, func(cfg *config.Server) { cfg.DatastoreEndpoint = endpoint })
	}
}

func TestControlPlaneOnNATS(t *testing.T) {
	if nstest.Isolate(t) {
		endpoint := databases.StartNATS(t, "127.0.0.1")
		testControlPlane(t, func(cfg *config.Server) { cfg.DatastoreEndpoint = endpoint })
	}
}

func TestControlPlaneOnAnEtcdOfOthers(t *testing.T) {
	if nstest.Isolate(t) {
		e := databases.StartEtcd(t)
		testControlPlane(t, func(cfg *config.Server) {
			cfg.DatastoreEndpoint, cfg.DatastoreCAFile, cfg.DatastoreCertFile, cfg.DatastoreKeyFile = e.Endpoint,
				e.CAFile, e.CertFile, e.KeyFile
		})
	}
}

// store is a client of the datastore until the test ends.
func (p *plane) store(t *testing.T) *clientv3.Client {
	t.Helper()
	if !strings.HasPrefix(p.cfg.DatastoreEndpoint, "https:") {
		return p.Etcd(t)
	}
	secure, err := transport.TLSInfo{CertFile: p.cfg.DatastoreCertFile, KeyFile: p.cfg.DatastoreKeyFile,
		TrustedCAFile: p.cfg.DatastoreCAFile}.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: strings.Split(p.cfg.DatastoreEndpoint, ","), TLS: secure,
		DialTimeout: deadline})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() }) //nolint:errcheck // the datastore ends as well
	return client
}

// testTenants makes two tenants that have objects of the same names, watches
// one of them, and deletes the other.
func (p *plane) testTenants(t *testing.T) {
	ctx := t.Context()
	clients := map[string]kubernetes.Interface{}
	for _, tenant := range []string{"red", "blue"} {
		planes.CreateTenant(t, p.Admin, tenant)
		name, groups := planes.AdminOf(tenant)
		user := p.User(t, name, groups, nil)
		planes.AwaitAccount(t, user, "default")
		var err error
		if clients[tenant], err = kubernetes.NewForConfig(user); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the CA of "+tenant, func(ctx context.Context) (bool, error) {
			_, err := clients[tenant].CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			return err == nil, ignoreNotFound(err)
		})
	}
	red, blue := clients["red"].CoreV1(), clients["blue"].CoreV1()
	before, err := red.ConfigMaps("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	watched, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	events, err := red.ConfigMaps("").Watch(watched, metav1.ListOptions{ResourceVersion: before.ResourceVersion})
	if err != nil {
		t.Fatal(err)
	}
	defer events.Stop()
	for tenant, client := range clients {
		for _, name := range []string{"a", "b", "c"} {
			object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name},
				Data: map[string]string{"of": tenant}}
			if _, err := client.CoreV1().ConfigMaps("default").
				Create(ctx, object, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"},
			Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		if _, err := client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for seen := 0; seen < 3; {
		e, ok := <-events.ResultChan()
		if !ok || e.Type == watch.Error {
			t.Fatalf("the watch ended after %d objects: %v", seen, e.Object)
		}
		object, ok := e.Object.(*corev1.ConfigMap)
		if !ok || e.Type != watch.Added || object.Name == "kube-root-ca.crt" {
			continue
		}
		if object.Data["of"] != "red" {
			t.Fatalf("red sees %s of %s", object.Name, object.Data["of"])
		}
		seen++
	}
	// In pages, which go to the datastore and not to a cache.
	var names []string
	for page := (metav1.ListOptions{Limit: 1}); ; {
		list, err := blue.ConfigMaps("default").List(ctx, page)
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			names = append(names, list.Items[i].Name)
		}
		if page.Continue = list.Continue; page.Continue == "" {
			break
		}
	}
	if got := strings.Join(names, " "); got != "a b c kube-root-ca.crt" {
		t.Errorf("blue has %s", got)
	}

	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := tenants.Delete(ctx, "blue", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of a tenant", func(ctx context.Context) (bool, error) {
		_, err := tenants.Get(ctx, "blue", metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
	left, err := p.store(t).Get(ctx, "/registry/", clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range left.Kvs {
		if key := string(kv.Key); strings.Contains(key, "/blue") && !strings.Contains(key, "/events/") {
			t.Errorf("%s is left of the tenant", key)
		}
	}
	if list, err := red.ConfigMaps("default").List(ctx, metav1.ListOptions{}); err != nil || len(list.Items) != 4 {
		t.Errorf("red has %d objects, %v", len(list.Items), err)
	}
}

// TestDatastoreOfAnotherServerIsRefused: nothing is lost sight of, and nobody
// works on what is another's.
func TestDatastoreOfAnotherServerIsRefused(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	with := func(dir, endpoint string) *config.Server {
		cfg := planes.Settings(dir)
		cfg.DatastoreEndpoint = endpoint
		return cfg
	}
	postgres := databases.StartPostgreSQL(t)
	dir := t.TempDir()
	p := start(t, with(dir, postgres.Endpoint("one")))
	if err := p.group.Stop(); err != nil {
		t.Fatal(err)
	}
	refused := func(what string, cfg *config.Server, parts ...string) {
		t.Helper()
		group := planes.NewGroup()
		_, err := planes.Run(t.Context(), group, cfg)
		_ = group.Stop()
		var pre *problem.Precondition
		if !errors.As(err, &pre) {
			t.Errorf("%s: %v", what, err)
			return
		}
		for _, part := range parts {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v, want %q in it", what, err, part)
			}
		}
		if strings.Contains(err.Error(), databases.Password) {
			t.Errorf("%s: the password is in %v", what, err)
		}
	}
	refused("another kind", with(dir, "sqlite"), "it has been PostgreSQL at ", "it is to be SQLite",
		"database one", "move "+dir)
	refused("embedded etcd", with(dir, ""), "it has been PostgreSQL at ", "it is to be embedded etcd")
	refused("an empty database", with(dir, postgres.Endpoint("two")), "it is empty or another one")
	refused("a new server", with(t.TempDir(), postgres.Endpoint("one")), "it is that of another server")
	if _, err := os.Stat(filepath.Join(dir, "server", "db", "state.db")); err == nil {
		t.Error("a refused start made a database")
	}
	again := start(t, with(dir, postgres.Endpoint("one")))
	if again.FirstStart {
		t.Error("the server began anew")
	}
	if err := again.group.Stop(); err != nil {
		t.Fatal(err)
	}

	etcd := t.TempDir()
	embedded := start(t, with(etcd, ""))
	if err := embedded.group.Stop(); err != nil {
		t.Fatal(err)
	}
	refused("after embedded etcd", with(etcd, "sqlite"), "it has been embedded etcd", "no --datastore-endpoint")
}
