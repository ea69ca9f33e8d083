package serving

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/cacher"
	"k8s.io/apiserver/pkg/storage/etcd3"
	etcdfeature "k8s.io/apiserver/pkg/storage/feature"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/controlplane/apistorage"
	"github.com/a4s-io/a4s/server/groups/ranged"
	"github.com/a4s-io/a4s/tests/plainetcd"
)

const (
	root       = "/registry"
	prefix     = "/configmaps"
	configs    = root + "/datapartitionconfigs/"
	namespaces = root + "/namespaces/"
	// deadline bounds every wait.
	deadline = 3 * time.Minute
)

// runEtcd starts an etcd for the time of the test.
func runEtcd(t testing.TB) *clientv3.Client {
	t.Helper()
	etcd := plainetcd.Run(t)
	prepare(t, etcd)
	return etcd
}

// prepare has upstream's storage know what this etcd can do.
func prepare(t testing.TB, etcd *clientv3.Client) {
	t.Helper()
	etcdfeature.DefaultFeatureSupportChecker.CheckClient(t.Context(), etcd, storage.RequestWatchProgress)
}

// configure gives a group a range, "" for an open end. It returns the revision.
func configure(t testing.TB, etcd *clientv3.Client, group, start, end string) int64 {
	t.Helper()
	r, err := etcd.Put(t.Context(), configs+"of-"+group, configuration(t, group, start, end))
	if err != nil {
		t.Fatal(err)
	}
	return r.Header.Revision
}

// configuration is one as it is stored.
func configuration(t testing.TB, group, start, end string) string {
	t.Helper()
	value, err := json.Marshal(&partitionapi.DataPartitionConfig{
		RangeStart: start, IsRangeStartValid: start != "", RangeEnd: end, IsRangeEndValid: end != "",
		ServiceGroupID: group,
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(value)
}

func newConfigMap() runtime.Object     { return &corev1.ConfigMap{} }
func newConfigMapList() runtime.Object { return &corev1.ConfigMapList{} }

// keyOf is the stored key of a config map: its namespace is tenant/namespace for tenants.
func keyOf(obj runtime.Object) (string, error) {
	c := obj.(*corev1.ConfigMap)
	return prefix + "/" + c.Namespace + "/" + c.Name, nil
}

func attributesOf(obj runtime.Object) (labels.Set, fields.Set, error) {
	c := obj.(*corev1.ConfigMap)
	return c.Labels, fields.Set{"metadata.name": c.Name, "metadata.namespace": c.Namespace}, nil
}

func codec() runtime.Codec {
	info, _ := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeProtobuf)
	codecs := serializer.NewCodecFactory(scheme.Scheme)
	return codecs.CodecForVersions(info.Serializer, codecs.UniversalDeserializer(), corev1.SchemeGroupVersion,
		corev1.SchemeGroupVersion)
}

// server makes the storage that a server of a group has.
func server(t testing.TB, etcd *clientv3.Client, group string) storage.Interface {
	t.Helper()
	return serverBehind(t, etcd, group, func(kv clientv3.KV) clientv3.KV { return kv })
}

// sourceOf is what a server of a group reads the configurations with.
func sourceOf(t testing.TB, etcd *clientv3.Client, group string) *ranged.Source {
	t.Helper()
	return ranged.NewSource(ranged.Options{
		Group: group, Client: plainetcd.Dial(t, etcd.Endpoints()...), Configs: configs, Namespaces: namespaces,
		Decode: func(_ context.Context, _ string, value []byte) (*partitionapi.DataPartitionConfig, error) {
			c := &partitionapi.DataPartitionConfig{}
			return c, json.Unmarshal(value, c)
		},
	})
}

// serverBehind is server, with what it reads at a change behind something.
func serverBehind(
	t testing.TB, etcd *clientv3.Client, group string, behind func(clientv3.KV) clientv3.KV,
) storage.Interface {
	t.Helper()
	source := sourceOf(t, etcd, group)
	source.Client.KV = behind(source.Client.KV)
	return serverOf(t, etcd, source, func(kv clientv3.KV) clientv3.KV { return kv })
}

// serverCounted is server, with what its storages read behind something.
func serverCounted(
	t testing.TB, etcd *clientv3.Client, group string, behind func(clientv3.KV) clientv3.KV,
) storage.Interface {
	t.Helper()
	return serverOf(t, etcd, sourceOf(t, etcd, group), behind)
}

func serverOf(
	t testing.TB, etcd *clientv3.Client, source *ranged.Source, behind func(clientv3.KV) clientv3.KV,
) storage.Interface {
	t.Helper()
	codec, versioner := codec(), storage.APIObjectVersioner{}
	resource := corev1.Resource("configmaps")
	s, stop, err := New(Options{
		Source: source, Layout: space.Namespaced, Root: root,
		Cache: cacher.Config{
			Versioner: versioner, GroupResource: resource, ResourcePrefix: prefix, KeyFunc: keyOf,
			NewFunc: newConfigMap, NewListFunc: newConfigMapList, GetAttrsFunc: attributesOf, Codec: codec,
			EventsHistoryWindow: storagebackend.DefaultEventsHistoryWindow,
		},
		Storage: func(change func(*clientv3.Client)) (storage.Interface, func(), error) {
			own := plainetcd.Dial(t, etcd.Endpoints()...)
			own.KV = behind(own.KV)
			change(own)
			client := &kubernetes.Client{Client: own}
			client.Kubernetes = client
			config := storagebackend.NewDefaultConfig(root, codec).ForResource(resource)
			s, err := apistorage.OverEtcd(client, etcd3.NewCompactor(own, 0, clock.RealClock{}, nil),
				apistorage.Storing{Config: config, Prefix: prefix, New: newConfigMap, NewList: newConfigMapList},
				identity.NewEncryptCheckTransformer(), etcd3.NewDefaultDecoder(codec, versioner))
			if err != nil {
				return nil, nil, err
			}
			return s, s.Close, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	for start := time.Now(); s.ReadinessCheck() != nil; {
		if time.Since(start) > deadline {
			t.Fatal("the cache does not become ready")
		}
		time.Sleep(time.Millisecond) // there is nothing to wait on
	}
	return s
}

// in addresses a request to a tenant.
func of(t testing.TB, tenant string) context.Context { return space.WithTenant(t.Context(), tenant) }

func configMap(tenant, name, value string) *corev1.ConfigMap {
	namespace := tenant + "/default"
	if tenant == space.System {
		namespace = "kube-system"
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Data: map[string]string{"value": value},
	}
}

func create(t testing.TB, s storage.Interface, tenant, name, value string) *corev1.ConfigMap {
	t.Helper()
	c := configMap(tenant, name, value)
	key, _ := keyOf(c)
	if err := s.Create(t.Context(), key, c, c, 0); err != nil {
		t.Fatal(err)
	}
	return c
}

// everything is what a list of all there is asks for.
func everything() storage.ListOptions {
	return storage.ListOptions{Recursive: true, Predicate: storage.SelectionPredicate{
		Label: labels.Everything(), Field: fields.Everything(), GetAttrs: attributesOf,
	}}
}

// list returns name@revision of all that a list has, and its revision.
func list(ctx context.Context, s storage.Interface, key string) (items []string, rev string, err error) {
	var l corev1.ConfigMapList
	if err := s.GetList(ctx, key, everything(), &l); err != nil {
		return nil, "", err
	}
	for _, c := range l.Items {
		items = append(items, strings.TrimPrefix(c.Namespace, prefix+"/")+"/"+c.Name+"@"+c.ResourceVersion)
	}
	return items, l.ResourceVersion, nil
}

func itoa(rev int64) string { return strconv.FormatInt(rev, 10) }
