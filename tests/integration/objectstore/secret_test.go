package objectstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/datastore/snapshots/archive"
	"github.com/a4s-io/a4s/tests/objectstore"
)

// api is an API server that has the objects that a path has, and counts what it is asked.
type api struct {
	objects map[string]any
	asked   atomic.Int32
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.asked.Add(1)
	w.Header().Set("Content-Type", "application/json")
	object, ok := a.objects[r.URL.Path]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		object = metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: "Failure",
			Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound}
	}
	_ = json.NewEncoder(w).Encode(object)
}

// inSecret makes the settings of S3 of the machine those of a Secret in the API at url.
func (m *machine) inSecret(t *testing.T, url string) {
	t.Helper()
	data := filepath.Dir(m.config)
	kubeconfig := filepath.Join(data, "admin.yaml")
	for path, text := range map[string]string{
		m.config: fmt.Sprintf("data-dir: %s\nnode-name: n\nwrite-kubeconfig: %s\netcd-s3: true\n"+
			"etcd-s3-config-secret: s3\n", data, kubeconfig),
		kubeconfig: fmt.Sprintf("{clusters: [{name: a, cluster: {server: %q}}], current-context: a, "+
			"contexts: [{name: a, context: {cluster: a, user: a}}], users: [{name: a, user: {}}]}", url),
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Commands use the settings of the Secret that the server of this machine is told of.
func TestCommandsReadTheSecret(t *testing.T) {
	server := objectstore.Start(t, program)
	m := newMachine(t, server, "f")
	s := server.Settings("f")
	ca, err := os.ReadFile(s.EndpointCA)
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{TypeMeta: metav1.TypeMeta{Kind: "Secret", APIVersion: "v1"}, Data: map[string][]byte{
		"etcd-s3-endpoint": []byte(s.Endpoint), "etcd-s3-endpoint-ca-name": []byte("cas"),
		"etcd-s3-access-key": []byte(s.AccessKey), "etcd-s3-secret-key": []byte(s.SecretKey),
		"etcd-s3-bucket": []byte(s.Bucket), "etcd-s3-bucket-lookup-type": []byte("path"),
		"etcd-s3-folder": []byte("f"),
	}}
	a := &api{objects: map[string]any{
		"/api/v1/namespaces/kube-system/secrets/s3": secret,
		"/api/v1/namespaces/kube-system/configmaps/cas": &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
			Data:     map[string]string{"any.name": string(ca)}},
	}}
	there := httptest.NewServer(a)
	defer there.Close()
	m.inSecret(t, there.URL)

	location := "s3://" + objectstore.Bucket + "/f"
	saved := strings.Fields(m.must(t, "save"))
	if len(saved) != 2 || saved[1] != location+"/"+filepath.Base(saved[0]) {
		t.Fatalf("saved as %v", saved)
	}
	name := filepath.Base(saved[0])
	if out := m.must(t, "list"); strings.Count(out, name) != 2 {
		t.Errorf("listed\n%s", out)
	}

	// What is wrong with the Secret is said by the name of its key, and never more.
	var in *problem.Input
	secret.Data["etcd-s3-secret-key"] = []byte("wrong-s3cret")
	if out, err := m.run(t, "save"); !errors.As(err, &in) || !strings.Contains(out, "on-demand-n-") ||
		in.Source != `Secret kube-system/s3: key "etcd-s3-secret-key"` || strings.Contains(in.Want, "AWS_") {
		t.Errorf("%q, %v", out, err)
	}
	secret.Data["etcd-s3-secret-key"] = []byte(s.SecretKey)

	// Settings that are given are used instead of all that the Secret has.
	asked := a.asked.Load()
	if _, err := m.run(t, "list", "--etcd-s3-bucket=other"); err == nil {
		t.Error("another bucket is used with the keys of the Secret")
	}
	// A restore has no API that it could ask.
	m.must(t, "restore", name)
	if m.path != filepath.Join(string(m.dir), name) {
		t.Errorf("restored %s", m.path)
	}
	if _, err := m.run(t, "restore", "absent.tar"); !errors.As(err, &in) ||
		!strings.Contains(err.Error(), "no API to read it from") {
		t.Errorf("restoring what is not here: %v", err)
	}
	if now := a.asked.Load(); now != asked {
		t.Errorf("the API was asked %d times", now-asked)
	}

	if out := m.must(t, "delete", name); out != "deleted "+name+"\ndeleted "+location+"/"+name+"\n" {
		t.Errorf("deleted %q", out)
	}
	there.Close()
	out, err := m.run(t, "save")
	var lost *archive.NotCopiedError
	if !errors.As(err, &lost) || !strings.Contains(err.Error(), "is kept as "+strings.TrimSpace(out)) {
		t.Errorf("without the API: %q, %v", out, err)
	}
	// Nothing is deleted here when it is not known what there is elsewhere.
	local := filepath.Base(strings.TrimSpace(out))
	if out, err := m.run(t, "delete", local); err == nil || out != "" {
		t.Errorf("deleting without the API: %q, %v", out, err)
	}
}

// A proxy of the settings is used whatever the environment says.
func TestProxyOfTheSettings(t *testing.T) {
	server := objectstore.Start(t, program)
	var through atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		through.Add(1)
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer proxy.Close()
	cfg := server.Settings("f")
	u, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("u", "pr0xy-s3cret")
	cfg.Proxy = u.String()
	err = open(t, cfg).Check(t.Context())
	if err == nil || through.Load() == 0 || strings.Contains(err.Error(), "s3cret") ||
		!strings.Contains(err.Error(), "--etcd-s3-proxy none") {
		t.Errorf("through the proxy: %v", err)
	}
	cfg.Proxy = "none"
	if err := open(t, cfg).Check(t.Context()); err != nil {
		t.Errorf("without: %v", err)
	}
}
