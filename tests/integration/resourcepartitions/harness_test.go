// Package resourcepartitions_test runs API servers of tenant and resource partitions in
// this process, each with an etcd of its own, in a network namespace of its own, and what
// a tenant partition has of the nodes of others: copies, allocations, the not-ready marker.
package resourcepartitions_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/kube-openapi/pkg/common"

	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/workload"
	"github.com/a4s-io/a4s/server/controlplane/apiserver"
	"github.com/a4s-io/a4s/server/datastore"
	"github.com/a4s-io/a4s/server/nodeapi/bootstrap"
	"github.com/a4s-io/a4s/server/partition/allocations"
	allocationregistry "github.com/a4s-io/a4s/server/partition/allocations/registry"
	"github.com/a4s-io/a4s/server/partition/nodecopies/storage"
	directoryregistry "github.com/a4s-io/a4s/server/partition/registry"
	tenantregistry "github.com/a4s-io/a4s/server/tenancy/tenants/registry"
	"github.com/a4s-io/a4s/tests/plainetcd"
	"github.com/a4s-io/a4s/tests/planes"
	"github.com/a4s-io/a4s/tests/rewrite"
)

// importerUser is what storage of nodes knows the importer by.
const importerUser = "system:a4s:node-importer"

// plane is the API of a partition.
type plane struct {
	name   string
	files  *pki.Files
	link   *link
	direct string // its own URL, without the link
	// admin is the administrator's, without the link.
	admin kubernetes.Interface
	// closed keeps partitions from writing allocations.
	closed atomic.Bool
}

// startPlane runs etcd and the API server of a partition until the test ends.
func startPlane(t *testing.T, name string, port int) *plane {
	t.Helper()
	dir := t.TempDir()
	files, err := pki.Ensure(filepath.Join(dir, "tls"), pki.Options{SANs: []string{"127.0.0.1", planes.Address}})
	if err != nil {
		t.Fatal(err)
	}
	etcd := plainetcd.Run(t)
	group := planes.NewGroup()
	t.Cleanup(func() {
		if err := group.Stop(); err != nil {
			t.Error(err)
		}
	})
	p := &plane{name: name, files: files, direct: fmt.Sprintf("https://127.0.0.1:%d", port)}
	log := logrus.NewEntry(logrus.StandardLogger())
	ctx, cancel := context.WithTimeout(t.Context(), planes.Deadline)
	defer cancel()
	if err := group.StartAndWait(ctx, apiserver.New(apiserver.Options{
		BindAddress: "0.0.0.0", Port: port, AdvertiseAddress: net.ParseIP(planes.Address),
		ServiceCIDR: "10.43.0.0/16", ServiceNodePortRange: "30000-32767", ClusterDomain: "cluster.local",
		Datastore: datastore.Endpoint{URLs: etcd.Endpoints()}, Log: log,
		Seams: apiserver.Seams{
			Groups:      map[string]apiserver.Group{"": p.extend},
			Definitions: definitions,
			Handler: func(h http.Handler, _ func(http.Handler) http.Handler) http.Handler {
				return bootstrap.Mark(h)
			},
		},
		Args: []string{"disable-admission-plugins=ServiceAccount"},
		Files: apiserver.Files{
			ClientCA:    files.ClientCA.Cert,
			ServingCert: files.ServingAPIServer.Cert, ServingKey: files.ServingAPIServer.Key,
			KubeletCA:         files.ServerCA.Cert,
			KubeletClientCert: files.APIServerKubeletClient.Cert, KubeletKey: files.APIServerKubeletClient.Key,
			RequestHeaderCA: files.RequestHeaderCA.Cert,
			ProxyClientCert: files.AuthProxy.Cert, ProxyClientKey: files.AuthProxy.Key,
			ServiceAccountKey: files.ServiceAccountKey,
			CertDir:           filepath.Join(dir, "upstream"),
		},
	})); err != nil {
		t.Fatal(err)
	}
	p.link = newLink(t, fmt.Sprintf("127.0.0.1:%d", port))
	p.admin = p.client(t, p.as(t, "system:admin", p.direct))
	if _, err := p.admin.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{}); err != nil {
		planes.Eventually(t, "the namespace default", func(ctx context.Context) (bool, error) {
			_, err := p.admin.CoreV1().Namespaces().Get(ctx, "default", metav1.GetOptions{})
			return err == nil, nil
		})
	}
	return p
}

func (p *plane) extend(g generic.RESTOptionsGetter, _ apiserver.GroupConfig, v1 map[string]rest.Storage) error {
	shares, err := allocationregistry.Storage(g, p.closed.Load)
	maps.Copy(v1, shares)
	directory, directoryErr := directoryregistry.Storage(g)
	maps.Copy(v1, directory)
	tenants, tenantsErr := tenantregistry.Storage(g, tenantregistry.Options{})
	maps.Copy(v1, tenants)
	return errors.Join(err, directoryErr, tenantsErr, storage.Extend(v1, importerUser))
}

func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	out := allocationregistry.Definitions(ref)
	maps.Copy(out, directoryregistry.Definitions(ref))
	maps.Copy(out, tenantregistry.Definitions(ref))
	return out
}

// as is the access of a user with all rights.
func (p *plane) as(t *testing.T, user, url string) *restclient.Config {
	t.Helper()
	return &restclient.Config{Host: url, QPS: -1,
		TLSClientConfig: planes.Certificate(t, p.files, user, []string{pki.GroupMasters}, nil)}
}

func (p *plane) client(t *testing.T, cfg *restclient.Config) kubernetes.Interface {
	t.Helper()
	cfg.ContentType, cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf",
		"application/vnd.kubernetes.protobuf,application/json"
	c, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// reader is what another partition reads this one with, through the link.
func (p *plane) reader(t *testing.T, of string) kubernetes.Interface {
	return p.client(t, p.as(t, allocations.UserPrefix+of, p.link.url()))
}

// allocations is what another partition commits with, through the link.
func (p *plane) allocations(t *testing.T, of string) *allocations.Client {
	t.Helper()
	c, err := allocations.NewClient(p.as(t, allocations.UserPrefix+of, p.link.url()), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs a component until the test ends, or the returned function is called.
func run(t *testing.T, c component.Component) (stop func()) {
	t.Helper()
	group := planes.NewGroup()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			if err := group.Stop(); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(stop)
	ctx, cancel := context.WithTimeout(t.Context(), planes.Deadline)
	defer cancel()
	if err := group.StartAndWait(ctx, c); err != nil {
		t.Fatal(err)
	}
	return stop
}

// link is what carries connections to a partition, and can be cut.
type link struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	cut   bool
	conns map[net.Conn]bool
}

func newLink(t *testing.T, to string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{listener: listener, to: to, conns: map[net.Conn]bool{}}
	t.Cleanup(func() {
		_ = listener.Close()
		l.set(true)
	})
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go l.carry(c)
		}
	}()
	return l
}

func (l *link) url() string { return "https://" + l.listener.Addr().String() }

// set cuts the link, with all its connections, or mends it.
func (l *link) set(cut bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cut = cut
	if cut {
		for c := range l.conns {
			_ = c.Close()
		}
	}
}

func (l *link) carry(c net.Conn) {
	defer c.Close() //nolint:errcheck // it was used to its end
	out, err := net.Dial("tcp", l.to)
	if err != nil {
		return
	}
	defer out.Close() //nolint:errcheck // it was used to its end
	l.mu.Lock()
	if l.cut {
		l.mu.Unlock()
		return
	}
	l.conns[c], l.conns[out] = true, true
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.conns, c)
		delete(l.conns, out)
	}()
	go func() {
		_, _ = io.Copy(out, c)
		_ = out.Close()
	}()
	_, _ = io.Copy(c, out)
}

// node is one that is ready.
func node(name, cpu string) *corev1.Node {
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	has := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("64Gi"),
		corev1.ResourcePods: resource.MustParse("110"), corev1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name,
			Labels: map[string]string{corev1.LabelHostname: name, corev1.LabelOSStable: "linux"}},
		Status: corev1.NodeStatus{Capacity: has, Allocatable: has,
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.9"}}},
	}
	for _, c := range []corev1.NodeConditionType{corev1.NodeReady, workload.Container.Condition()} {
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: c, Status: corev1.ConditionTrue,
			Reason: "Hollow", LastHeartbeatTime: now, LastTransitionTime: now})
	}
	return n
}

// register makes a node as a kubelet does, ready at once.
func (p *plane) register(t *testing.T, n *corev1.Node) *corev1.Node {
	t.Helper()
	if _, err := p.admin.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Admission gives new nodes a taint, which a controller would take away.
	made, err := rewrite.Object(t.Context(), p.admin.CoreV1().Nodes(), n.Name, func(made *corev1.Node) {
		made.Spec.Taints = nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return made
}
