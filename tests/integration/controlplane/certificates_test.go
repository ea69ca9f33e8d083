package controlplane_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/renewal"
	"github.com/a4s-io/a4s/tests/load"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// TestCertificatesOfAServerAreRenewed takes a server through three lives of
// all its certificates, and looks for requests that fail, watches that end and
// controllers that do not act any more.
func TestCertificatesOfAServerAreRenewed(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	transport.CertCallbackRefreshDuration = renewal.ReloadEvery // as main does
	cfg := settings(t.TempDir())
	cfg.CertificateLifetime = renewal.MinLife.String()
	p := planes.Start(t, cfg)
	admin, err := kubernetes.NewForConfig(&rest.Config{Host: p.URL, Transport: load.Fresh(p.Kubeconfig), QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	token := rootToken(t, admin)
	kept, anew := load.WithToken(t, p.URL, p.Files.ServerCA.Cert, token, true),
		load.WithToken(t, p.URL, p.Files.ServerCA.Cert, token, false)
	first := ends(t, p.Files)

	ctx, cancel := context.WithTimeout(t.Context(), 3*renewal.MinLife+5*time.Second)
	defer cancel()
	var work load.Load
	work.Run(ctx, "objects, by certificate", func(ctx context.Context, n int) error {
		maps := admin.CoreV1().ConfigMaps("default")
		name := fmt.Sprintf("load-%d", n)
		if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{}); err != nil {
			return err
		}
		return maps.Delete(ctx, name, metav1.DeleteOptions{})
	})
	for what, client := range map[string]kubernetes.Interface{"by token on one connection": kept,
		"by token on new connections": anew} {
		work.Run(ctx, what, func(ctx context.Context, _ int) error {
			_, err := client.CoreV1().Secrets("default").List(ctx, metav1.ListOptions{})
			return err
		})
	}
	work.Run(ctx, "namespaces", func(ctx context.Context, n int) error {
		name := fmt.Sprintf("load-%d", n)
		if _, err := kept.CoreV1().Namespaces().Create(ctx,
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			return err
		}
		// The controller manager does this, with a certificate of its own.
		watch, err := kept.CoreV1().ServiceAccounts(name).Watch(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		defer watch.Stop()
		select {
		case <-watch.ResultChan():
			return kept.CoreV1().Namespaces().Delete(ctx, name, metav1.DeleteOptions{})
		case <-time.After(deadline):
			return fmt.Errorf("namespace %s has no service account", name)
		}
	})
	node := joinedNode(ctx, t, p)
	work.Run(ctx, "node, by certificate", func(ctx context.Context, _ int) error {
		_, err := node.CoreV1().Services("").List(ctx, metav1.ListOptions{})
		if status := apierrors.APIStatus(nil); err != nil && !errors.As(err, &status) {
			// The client cut its own connection, to take the new certificate.
			_, err = node.CoreV1().Services("").List(ctx, metav1.ListOptions{})
		}
		return err
	})
	work.Wait(t)
	for file, end := range ends(t, p.Files) {
		if end.Before(first[file].Add(2 * renewal.MinLife)) {
			t.Errorf("%s ends at %s, was %s three lives ago", file, end, first[file])
		}
	}
	for _, s := range p.Group.States() {
		if s.Restarts > 0 {
			t.Errorf("component %s was restarted: %s", s.Name, s.LastError)
		}
	}
}

// joinedNode joins a node whose certificates are renewed as an agent does it,
// and returns a client that reads their files.
func joinedNode(ctx context.Context, t *testing.T, p *planes.Plane) kubernetes.Interface {
	t.Helper()
	dir := t.TempDir()
	opts := join.Options{
		ServerURL: p.URL, Token: p.Token, NodeName: "worker", NodeIPs: []string{"192.0.2.10"},
		Dir: filepath.Join(dir, "agent"), NodePasswordFile: filepath.Join(dir, "node", "password"),
		Log: logrus.WithField("component", "node"),
	}
	joined, err := join.Join(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	opts.Token = "" // a renewal has no need of it
	renew := renewal.New(renewal.Options{
		Name: "node-certificates", Files: []string{joined.ClientCert, joined.ServingCert}, Log: opts.Log,
		Renew: func(ctx context.Context) error { return join.Renew(ctx, opts) },
	})
	done := make(chan error, 1)
	go func() { done <- renew.Run(ctx, func() {}) }()
	t.Cleanup(func() {
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: p.URL, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CAFile: joined.ServerCA, CertFile: joined.ClientCert,
			KeyFile: joined.ClientKey},
	})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// rootToken is the token of a service account that may do everything.
func rootToken(t *testing.T, client kubernetes.Interface) string {
	t.Helper()
	if _, err := client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "load"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "default"}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var token string
	eventually(t, "a token of the service account", func(ctx context.Context) (bool, error) {
		request, err := client.CoreV1().ServiceAccounts("default").CreateToken(ctx, "default",
			&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
		if err != nil {
			return false, nil //nolint:nilerr // the account comes soon
		}
		token = request.Status.Token
		return true, nil
	})
	return token
}

// ends are the ends of the leaf certificates.
func ends(t *testing.T, files *pki.Files) map[string]time.Time {
	t.Helper()
	out := map[string]time.Time{}
	for _, u := range files.Uses() {
		if u.CA {
			continue
		}
		cert, err := pki.ReadCert(u.File)
		if err != nil {
			t.Fatal(err)
		}
		out[u.File] = cert.NotAfter
	}
	return out
}
