// Package controlplane_test runs the whole control plane in this process:
// embedded etcd, API server, controllers and scheduler, in a network namespace
// of its own.
package controlplane_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/internal/component"
	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

const deadline = planes.Deadline

type plane struct {
	*planes.Plane
	group  *component.Group
	cfg    *config.Server
	client kubernetes.Interface
}

func settings(dir string) *config.Server {
	cfg := planes.Settings(dir)
	cfg.AuditLogPath = filepath.Join(dir, "audit.log")
	cfg.SecretsEncryption = true
	return cfg
}

func start(t *testing.T, cfg *config.Server) *plane {
	t.Helper()
	p := planes.Start(t, cfg)
	return &plane{Plane: p, group: p.Group, cfg: p.Config, client: p.Client}
}

func eventually(t *testing.T, what string, check func(ctx context.Context) (bool, error)) {
	t.Helper()
	planes.Eventually(t, what, check)
}

func TestControlPlane(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	testControlPlane(t, func(*config.Server) {})
}

// testControlPlane is what a control plane does with any datastore.
func testControlPlane(t *testing.T, use func(*config.Server)) {
	dir := t.TempDir()
	settings := func(dir string) *config.Server {
		cfg := settings(dir)
		use(cfg)
		return cfg
	}
	p := start(t, settings(dir))

	t.Run("controllers and scheduler act", p.testControllersAct)
	t.Run("secrets are encrypted at rest", p.testSecretsAreEncrypted)
	t.Run("requests are audited", func(t *testing.T) { testAudit(t, filepath.Join(dir, "audit.log")) })
	t.Run("kubeconfig has mode 0600", func(t *testing.T) {
		if info, err := os.Stat(p.Kubeconfig); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode of %s = %v, %v", p.Kubeconfig, info.Mode(), err)
		}
	})
	t.Run("a node is confined to itself", p.testNodeIsConfined)
	t.Run("supervisor and API share the port", p.testSharedPort)
	t.Run("a second server says which port is taken", func(t *testing.T) {
		_, err := planes.Run(t.Context(), planes.NewGroup(), settings(t.TempDir()))
		var pre *problem.Precondition
		if !errors.As(err, &pre) || !strings.Contains(err.Error(), "6443") ||
			!strings.Contains(err.Error(), "--https-listen-port") {
			t.Errorf("Start = %v, want a precondition that names port and flag", err)
		}
	})
	t.Run("tenants come and go", p.testTenants)
	t.Run("a stop drains watches", p.testStopDrainsWatches)
	t.Run("everything starts again in the same process", func(t *testing.T) {
		// Upstream keeps state of its components in package variables; this
		// is what a restart of a component by its supervisor meets.
		again := start(t, settings(dir))
		if again.FirstStart {
			t.Error("the second start made a new PKI")
		}
		if _, err := again.client.CoreV1().Secrets("default").
			Get(t.Context(), "hidden", metav1.GetOptions{}); err != nil {
			t.Errorf("an object of the first run is gone: %v", err)
		}
		again.testControllersAct(t)
		if err := again.group.Stop(); err != nil {
			t.Error(err)
		}
	})
}

func (p *plane) testControllersAct(t *testing.T) {
	ctx := t.Context()
	pods := p.client.CoreV1().Pods("default")
	pod, err := pods.Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "x-"},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the scheduler's verdict", func(ctx context.Context) (bool, error) {
		got, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range got.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable {
				return true, nil
			}
		}
		return false, nil
	})
	ns, err := p.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "n-"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the service account of a new namespace", func(ctx context.Context) (bool, error) {
		_, err := p.client.CoreV1().ServiceAccounts(ns.Name).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, ignoreNotFound(err)
	})
	if err := p.client.CoreV1().Namespaces().Delete(ctx, ns.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of a deleted namespace", func(ctx context.Context) (bool, error) {
		_, err := p.client.CoreV1().Namespaces().Get(ctx, ns.Name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), ignoreNotFound(err)
	})
	svc, err := p.client.CoreV1().Services("kube-system").Get(ctx, "kube-dns", metav1.GetOptions{})
	if err != nil || svc.Spec.ClusterIP != p.cfg.ClusterDNS {
		t.Errorf("the DNS service has address %q, %v, want %s", svc.Spec.ClusterIP, err, p.cfg.ClusterDNS)
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (p *plane) testSecretsAreEncrypted(t *testing.T) {
	ctx := t.Context()
	if _, err := p.client.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "hidden"}, StringData: map[string]string{"k": "in-clear"},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := p.store(t).Get(ctx, "/registry/secrets/default/hidden")
	if err != nil || len(got.Kvs) != 1 {
		t.Fatalf("reading the stored Secret: %v, %v", got, err)
	}
	if v := string(got.Kvs[0].Value); !strings.HasPrefix(v, "k8s:enc:secretbox:v1:") ||
		strings.Contains(v, "in-clear") {
		t.Errorf("the stored Secret begins %.40q, want an encrypted value", v)
	}

	if p.cfg.DatastoreEndpoint != "" {
		return
	}
	anonymous, err := tls.Dial("tcp", "127.0.0.1:2379",
		&tls.Config{RootCAs: p.EtcdTLS(t).RootCAs, ServerName: "127.0.0.1"})
	if err == nil {
		// TLS 1.3 reports a missing client certificate on the first read.
		_, err = anonymous.Read(make([]byte, 1))
		anonymous.Close()
	}
	if err == nil {
		t.Error("the datastore talks to a client without a certificate")
	}
}

func testAudit(t *testing.T, path string) {
	eventually(t, "an audit line", func(context.Context) (bool, error) {
		data, err := os.ReadFile(path)
		return strings.Contains(string(data), `"resource":"secrets"`) &&
			!strings.Contains(string(data), "in-clear"), err
	})
}

// testNodeIsConfined joins as a real agent does and then tries what a stolen
// node credential would be used for.
func (p *plane) testNodeIsConfined(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	dir := t.TempDir()
	got, err := join.Join(ctx, join.Options{
		ServerURL: p.URL, Token: p.Token, NodeName: "n1", NodeIPs: []string{"192.0.2.10"},
		Dir: dir, NodePasswordFile: filepath.Join(dir, "password"),
	})
	if err != nil {
		t.Fatal(err)
	}
	node, err := kubernetes.NewForConfig(&rest.Config{Host: p.URL,
		TLSClientConfig: rest.TLSClientConfig{CAFile: got.ServerCA, CertFile: got.ClientCert, KeyFile: got.ClientKey}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"n1", "n2"} {
		client := node
		if name == "n2" {
			client = p.client.(*kubernetes.Clientset)
		}
		if _, err := client.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{}); err != nil {
			t.Fatalf("creating node %s: %v", name, err)
		}
	}
	label := []byte(`{"metadata":{"annotations":{"volumes.kubernetes.io/controller-managed-attach-detach":"true"}}}`)
	if _, err := node.CoreV1().Nodes().Patch(ctx, "n1", types.MergePatchType, label,
		metav1.PatchOptions{}); err != nil {
		t.Errorf("a node cannot annotate itself: %v", err)
	}
	for what, try := range map[string]func() error{
		"annotate another node": func() error {
			_, err := node.CoreV1().Nodes().Patch(ctx, "n2", types.MergePatchType, label, metav1.PatchOptions{})
			return err
		},
		"read secrets": func() error {
			_, err := node.CoreV1().Secrets("default").Get(ctx, "hidden", metav1.GetOptions{})
			return err
		},
		"read its own credential": func() error {
			_, err := node.CoreV1().Secrets("kube-system").List(ctx, metav1.ListOptions{})
			return err
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) {
			t.Errorf("a node that tries to %s gets %v, want forbidden", what, err)
		}
	}
	// What its network, proxy and DNS need.
	if _, err := node.CoreV1().Services("").List(ctx, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := node.DiscoveryV1().EndpointSlices("").List(ctx, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
	if _, err := node.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err != nil {
		t.Error(err)
	}
}

func (p *plane) testSharedPort(t *testing.T) {
	client, err := rest.HTTPClientFor(p.Admin)
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) (int, []byte) {
		resp, err := client.Get(p.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, body
	}
	if code, body := read(joinapi.PathPing); code != http.StatusOK || strings.TrimSpace(string(body)) != "pong" {
		t.Errorf("ping = %d %q", code, body)
	}
	if code, body := read("/readyz"); code != http.StatusOK || string(body) != "ok" {
		t.Errorf("readyz = %d %q", code, body)
	}
	code, body := read(joinapi.PathStatus)
	var status joinapi.ServerStatus
	if err := json.Unmarshal(body, &status); code != http.StatusOK || err != nil {
		t.Fatalf("status = %d %q, %v", code, body, err)
	}
	for _, c := range status.Components {
		if !c.Ready && c.Name != "kube-scheduler" || c.Restarts != 0 {
			t.Errorf("component %+v is not well", c)
		}
	}
}

func (p *plane) testStopDrainsWatches(t *testing.T) {
	var w watch.Interface
	// Until the cache is as new as the datastore, which takes some seconds with NATS
	// on a busy machine, upstream ends a watch with an error.
	eventually(t, "a watch that has begun", func(context.Context) (bool, error) {
		var err error
		if w, err = p.client.CoreV1().ConfigMaps("default").Watch(t.Context(), metav1.ListOptions{}); err != nil {
			return false, err
		}
		if e, open := <-w.ResultChan(); !open || e.Type == watch.Error {
			w.Stop()
			return false, nil
		}
		return true, nil
	})
	defer w.Stop()
	last := make(chan watch.Event, 1)
	go func() {
		var e watch.Event
		for e = range w.ResultChan() {
		}
		last <- e
	}()
	if err := p.group.Stop(); err != nil {
		t.Errorf("Stop = %v", err)
	}
	select {
	case e := <-last:
		if e.Type == watch.Error {
			t.Errorf("the watch ended with %+v, want a clean end", e.Object)
		}
	case <-time.After(deadline):
		t.Error("the watch did not end with the server")
	}
	_, err := os.Stat(filepath.Join(p.cfg.Agent.DataDir, "server", "db", "etcd", "member", "snap", "db"))
	if embedded := p.cfg.DatastoreEndpoint == ""; embedded != (err == nil) {
		t.Errorf("embedded etcd: %t, its file: %v", embedded, err)
	}
}
