package controlplane_test

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// accessKeys refuses all requests and notes whose they are.
type accessKeys struct {
	sync.Mutex
	seen map[string]bool
}

var credential = regexp.MustCompile(`Credential=([^/]+)/`)

func (k *accessKeys) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m := credential.FindStringSubmatch(r.Header.Get("Authorization")); m != nil {
		k.Lock()
		k.seen[m[1]] = true
		k.Unlock()
	}
	w.WriteHeader(http.StatusForbidden)
}

func (k *accessKeys) all() []string {
	k.Lock()
	defer k.Unlock()
	return slices.Sorted(maps.Keys(k.seen))
}

// TestSettingsOfS3InASecret: the schedule uses what the Secret of the system has at the moment, and a
// Secret of a tenant under the same name is nobody's.
func TestSettingsOfS3InASecret(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	keys := &accessKeys{seen: map[string]bool{}}
	storage := httptest.NewServer(keys)
	defer storage.Close()
	normal, err := config.DefaultServer()
	if err != nil {
		t.Fatal(err)
	}
	cfg := planes.Settings(t.TempDir())
	cfg.EtcdDisableSnapshots, cfg.EtcdSnapshotScheduleCron, cfg.EtcdSnapshotName = false, "@every 1s", "s"
	cfg.EtcdSnapshotDir = t.TempDir()
	cfg.EtcdS3 = normal.EtcdS3
	cfg.EtcdS3.Enabled, cfg.EtcdS3.ConfigSecret = true, "s3"
	p := start(t, cfg)

	of := func(key string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s3"}, StringData: map[string]string{
			"etcd-s3-endpoint": storage.Listener.Addr().String(), "etcd-s3-insecure": "true",
			"etcd-s3-bucket": "backups", "etcd-s3-access-key": key, "etcd-s3-secret-key": "s3cret",
		}}
	}
	planes.CreateTenant(t, p.Admin, "t1")
	name, organizations := planes.AdminOf("t1")
	user := p.User(t, name, organizations, nil)
	planes.AwaitAccount(t, user, "kube-system")
	tenant, err := kubernetes.NewForConfig(user)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tenant.CoreV1().Secrets("kube-system").
		Create(t.Context(), of("of-the-tenant"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	system := p.client.CoreV1().Secrets("kube-system")
	if _, err := system.Create(t.Context(), of("first"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	used := func(want ...string) {
		t.Helper()
		eventually(t, "requests with the access key "+want[len(want)-1], func(context.Context) (bool, error) {
			return slices.Contains(keys.all(), want[len(want)-1]), nil
		})
		if got := keys.all(); !slices.Equal(got, want) {
			t.Errorf("requests with the access keys %v, want %v", got, want)
		}
	}
	used("first")
	if _, err := system.Update(t.Context(), of("second"), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	used("first", "second")
}
