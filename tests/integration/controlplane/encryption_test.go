package controlplane_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

const hiddenWord = "the-hidden-word"

// A control plane that was started without encryption gets it, changes its
// key and gives it up, for the system's Secrets and for those of a tenant.
func TestSecretsEncryptionOfARunningServer(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	cfg := planes.Settings(t.TempDir())
	p := start(t, cfg)
	planes.CreateTenant(t, p.Admin, "t1")
	name, organizations := planes.AdminOf("t1")
	user := p.User(t, name, organizations, nil)
	planes.AwaitAccount(t, user, "default")
	tenant, err := kubernetes.NewForConfig(user)
	if err != nil {
		t.Fatal(err)
	}
	t.Run("metrics and profiles are for administrators of the cluster", func(t *testing.T) { p.testProfiles(t, user) })
	const each = 60
	var group errgroup.Group
	group.SetLimit(8)
	for i := range 2 * each {
		client := p.client
		if i%2 == 1 {
			client = tenant
		}
		group.Go(func() error {
			_, err := client.CoreV1().Secrets("default").Create(t.Context(), &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("s%d", i)},
				StringData: map[string]string{"word": hiddenWord},
			}, metav1.CreateOptions{})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	etcd := p.Etcd(t)
	check := func(prefix string) {
		t.Helper()
		resp, err := etcd.Get(t.Context(), "/registry/secrets/", clientv3.WithPrefix())
		if err != nil || len(resp.Kvs) < 2*each {
			t.Fatalf("%d Secrets in the datastore, %v", len(resp.Kvs), err)
		}
		for _, kv := range resp.Kvs {
			if !bytes.HasPrefix(kv.Value, []byte(prefix)) ||
				bytes.HasPrefix(kv.Value, []byte("k8s:enc:")) && bytes.Contains(kv.Value, []byte(hiddenWord)) {
				t.Errorf("%s is stored as %q..., want %q", kv.Key, kv.Value[:min(30, len(kv.Value))], prefix)
			}
		}
		for client, first := range map[kubernetes.Interface]int{p.client: 0, tenant: 1} {
			for i := first; i < 2*each; i += 2 {
				s, err := client.CoreV1().Secrets("default").Get(t.Context(), fmt.Sprintf("s%d", i),
					metav1.GetOptions{})
				if err != nil || string(s.Data["word"]) != hiddenWord {
					t.Errorf("s%d says %q, %v", i, s.Data["word"], err)
				}
			}
		}
	}
	check("k8s\x00")

	admin := p.supervised(t, p.Admin.TLSClientConfig)
	for _, step := range []struct {
		action joinapi.EncryptionAction
		prefix string
	}{
		{joinapi.EncryptionEnable, "k8s:enc:secretbox:v1:key1:"},
		{joinapi.EncryptionRotate, "k8s:enc:secretbox:v1:key2:"},
		{joinapi.EncryptionDisable, "k8s\x00"},
	} {
		if code, body := admin(http.MethodPost, joinapi.PathEncryptionStart,
			joinapi.EncryptionRequest{Action: step.action}, nil); code != http.StatusOK {
			t.Fatalf("%s: %d %s", step.action, code, body)
		}
		var s joinapi.EncryptionStatus
		planes.Eventually(t, string(step.action)+" ends", func(context.Context) (bool, error) {
			s = joinapi.EncryptionStatus{}
			if code, body := admin(http.MethodGet, joinapi.PathEncryption, nil, &s); code != http.StatusOK {
				return false, fmt.Errorf("%d %s", code, body)
			}
			return !s.Job.Running, nil
		})
		if s.Job.Error != "" || s.Pending != 0 || s.Hash != s.LoadedHash {
			t.Fatalf("after %s the status is %+v, the job %+v", step.action, s, s.Job)
		}
		check(step.prefix)
	}

	if code, body := admin(http.MethodPost, joinapi.PathEncryptionStart,
		joinapi.EncryptionRequest{Action: joinapi.EncryptionRotate}, nil); code != http.StatusBadRequest ||
		!strings.Contains(body, "enable first") {
		t.Errorf("rotating what is not encrypted: %d %s", code, body)
	}
	if code, _ := p.supervised(t, user.TLSClientConfig)(http.MethodGet, joinapi.PathEncryption, nil,
		nil); code != http.StatusForbidden {
		t.Errorf("a tenant asks for the status: %d", code)
	}
}

// testProfiles gives the user of a tenant all rights that their tenant has.
func (p *plane) testProfiles(t *testing.T, user *rest.Config) {
	client, err := kubernetes.NewForConfig(user)
	if err != nil {
		t.Fatal(err)
	}
	anyPath := []rbacv1.PolicyRule{{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}}}
	// Whether that is granted or refused, it must not help.
	_, _ = client.RbacV1().ClusterRoles().Create(t.Context(),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "paths"}, Rules: anyPath}, metav1.CreateOptions{})
	_, _ = client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "paths"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "paths"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "admin"}},
	}, metav1.CreateOptions{})
	nobody := rest.TLSClientConfig{CAFile: p.Admin.CAFile}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/goroutine",
		"/debug/pprof/heap", "/debug/flags/v"} {
		for who, tc := range map[string]struct {
			identity rest.TLSClientConfig
			want     int
		}{
			"administrator": {p.Admin.TLSClientConfig, http.StatusOK},
			"tenant's":      {user.TLSClientConfig, http.StatusForbidden},
			"somebody":      {planes.Certificate(t, p.Files, "somebody", nil, nil), http.StatusForbidden},
			"nobody":        {nobody, http.StatusUnauthorized},
		} {
			if path == "/debug/flags/v" && who == "administrator" {
				continue // it takes PUT only
			}
			if code, body := p.supervised(t, tc.identity)(http.MethodGet, path, nil, nil); code != tc.want {
				t.Errorf("%s by %s: %d %.80s, want %d", path, who, code, body, tc.want)
			}
		}
		if code, _ := p.supervised(t, user.TLSClientConfig)(http.MethodGet, "/api/v1/tenants/t1"+path, nil,
			nil); code == http.StatusOK {
			t.Errorf("%s by way of the tenant's own paths: %d", path, code)
		}
	}
}

// supervised sends requests to the supervisor with a client certificate.
func (p *plane) supervised(
	t *testing.T, identity rest.TLSClientConfig,
) func(method, path string, in, out any) (int, string) {
	t.Helper()
	client, err := rest.HTTPClientFor(&rest.Config{TLSClientConfig: identity})
	if err != nil {
		t.Fatal(err)
	}
	return func(method, path string, in, out any) (int, string) {
		t.Helper()
		body, err := json.Marshal(in)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), method, p.URL+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		answer, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if out != nil && resp.StatusCode == http.StatusOK {
			if err := json.Unmarshal(answer, out); err != nil {
				t.Fatalf("%s: %v", answer, err)
			}
		}
		return resp.StatusCode, string(answer)
	}
}
