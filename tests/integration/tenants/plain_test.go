package tenants_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/client-go/dynamic"

	"github.com/a4s-io/a4s/server/controlplane/apiserver"
	"github.com/a4s-io/a4s/server/tenancy/storage"
	"github.com/a4s-io/a4s/tests/nstest"
)

// TestPlainDatastoreOpensAsTheSystemSpace writes objects with the API server
// of plain Kubernetes and reads them with that of a4s, from the same keys.
func TestPlainDatastoreOpensAsTheSystemSpace(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	dir := t.TempDir()
	plain := serveIn(t, dir, apiserver.Seams{})
	client, err := dynamic.NewForConfig(plain.config(plain.files.Admin))
	if err != nil {
		t.Fatal(err)
	}
	written := map[schema.GroupVersionResource][]string{}
	for _, o := range []struct {
		group, version, resource, kind, namespace, name, rest string
	}{
		{"", "v1", "namespaces", "Namespace", "", "apps", `{}`},
		{"", "v1", "configmaps", "ConfigMap", "apps", "one.two", `{"data":{"k":"v"}}`},
		{"", "v1", "services", "Service", "apps", "web", `{"spec":{"ports":[{"port":80}]}}`},
		{"", "v1", "persistentvolumes", "PersistentVolume", "", "pv.with.dots",
			`{"spec":{"accessModes":["ReadWriteOnce"],"capacity":{"storage":"1Gi"},"hostPath":{"path":"/x"}}}`},
		{"apps", "v1", "deployments", "Deployment", "apps", "web", `{"spec":{"selector":{"matchLabels":{"a":"b"}},` +
			`"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`},
		{"rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole", "", "reader", `{}`},
		{"apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", "", "foos.example.com",
			`{"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"foos","kind":"Foo"},` +
				`"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",` +
				`"x-kubernetes-preserve-unknown-fields":true}}}]}}`},
	} {
		object := map[string]any{}
		if err := json.Unmarshal([]byte(o.rest), &object); err != nil {
			t.Fatal(err)
		}
		gvr := schema.GroupVersionResource{Group: o.group, Version: o.version, Resource: o.resource}
		maps.Copy(object, map[string]any{"apiVersion": gvr.GroupVersion().String(), "kind": o.kind,
			"metadata": map[string]any{"name": o.name}})
		if _, err := client.Resource(gvr).Namespace(o.namespace).
			Create(t.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{}); err != nil {
			t.Fatalf("%s: %v", o.resource, err)
		}
		written[gvr] = append(written[gvr], o.namespace+"/"+o.name)
	}
	before := dump(t, plain)
	if err := plain.group.Stop(); err != nil {
		t.Fatal(err)
	}

	again := serveIn(t, dir, apiserver.Seams{
		Storage: func(g generic.RESTOptionsGetter) generic.RESTOptionsGetter {
			return storage.Decorate(g, storage.Options{})
		},
	})
	if client, err = dynamic.NewForConfig(again.config(again.files.Admin)); err != nil {
		t.Fatal(err)
	}
	for gvr, names := range written {
		list, err := client.Resource(gvr).List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for _, item := range list.Items {
			found[item.GetNamespace()+"/"+item.GetName()] = true
		}
		for _, name := range names {
			if !found[name] {
				t.Errorf("%s %s is missing in %v", gvr.Resource, name, found)
			}
		}
	}
	after := dump(t, again)
	for key := range before {
		// A lease of the first server ends with it.
		if _, ok := after[key]; !ok && !strings.Contains(key, "lease") {
			t.Errorf("the key %s is gone", key)
		}
	}
	for _, key := range []string{"/registry/configmaps/apps/one.two", "/registry/persistentvolumes/pv.with.dots",
		"/registry/services/specs/apps/web"} {
		if before[key] == "" || after[key] != before[key] {
			t.Errorf("the value of %s has changed", key)
		}
	}
}

// dump is what etcd holds.
func dump(t *testing.T, a *api) map[string]string {
	t.Helper()
	secure, err := transport.TLSInfo{TrustedCAFile: a.files.EtcdServerCA.Cert, CertFile: a.files.EtcdClient.Cert,
		KeyFile: a.files.EtcdClient.Key}.ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{"https://127.0.0.1:2379"}, TLS: secure,
		DialTimeout: deadline})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close() //nolint:errcheck // everything was read
	resp, err := client.Get(t.Context(), "/registry/", clientv3.WithPrefix())
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, kv := range resp.Kvs {
		out[string(kv.Key)] = string(kv.Value)
	}
	return out
}
