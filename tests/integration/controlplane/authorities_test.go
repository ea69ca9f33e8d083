package controlplane_test

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/tests/nstest"
	"github.com/a4s-io/a4s/tests/planes"
)

// TestAuthoritiesAreReplaced takes a cluster from its CAs to others: through
// the time in which both are trusted to the one in which the old ones are not.
func TestAuthoritiesAreReplaced(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	dir := t.TempDir()
	data := filepath.Join(dir, "data-0")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	node := func(name, token string) join.Options {
		return join.Options{
			ServerURL: "https://127.0.0.1:6443", Token: token, NodeName: name, NodeIPs: []string{"192.0.2.10"},
			Dir: filepath.Join(dir, name), NodePasswordFile: filepath.Join(dir, name, "password"),
			Log: logrus.WithField("component", name),
		}
	}
	rotate := func(o pki.RotateOptions) {
		t.Helper()
		o.Backup = filepath.Join(dir, "backup", "finish")
		if !o.Finish {
			o.Backup = filepath.Join(dir, "backup", "begin")
		}
		if err := os.MkdirAll(filepath.Dir(o.Backup), 0o700); err != nil {
			t.Fatal(err)
		}
		if r, err := pki.Rotate(filepath.Join(data, "server", "tls"), o); err != nil || len(r.Replaced) != 5 {
			t.Fatalf("%v, %v", r, err)
		}
		// A server has a process of its own. In this one, client-go would
		// know the CAs of the one before by the names of their files.
		next := data + "-"
		if err := os.Rename(data, next); err != nil {
			t.Fatal(err)
		}
		data = next
	}
	var oldKubeconfig, oldCA []byte
	var oldToken, newToken, account string
	ok := t.Run("before", func(t *testing.T) {
		p := planes.Start(t, settings(data))
		oldToken = p.Token
		oldKubeconfig, oldCA = read(t, p.Kubeconfig), read(t, p.Files.ServerCA.Cert)
		account = rootToken(t, p.Client)
		joinAs(t, node("worker", oldToken))
		joinAs(t, node("late", oldToken))
	})
	if !ok {
		return
	}
	rotate(pki.RotateOptions{})
	ok = t.Run("both", func(t *testing.T) {
		p := planes.Start(t, settings(data))
		if newToken = p.Token; newToken == oldToken {
			t.Error("the token pins the old CA")
		}
		old, err := clientcmd.RESTConfigFromKubeConfig(oldKubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		works(t, "the old kubeconfig", old)
		works(t, "a service account that knows the old CA",
			&rest.Config{Host: p.URL, BearerToken: account, TLSClientConfig: rest.TLSClientConfig{CAData: oldCA}})
		now, err := clientcmd.BuildConfigFromFlags("", p.Kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		works(t, "the new kubeconfig", now)
		files := pki.NodeFilesIn(filepath.Join(dir, "worker", "tls"))
		works(t, "a node that knows the old CA", nodeConfig(t, p.URL, files))

		renewal := node("worker", "") // as a running agent does it
		if err := join.Renew(t.Context(), renewal); err != nil {
			t.Fatal(err)
		}
		if string(read(t, files.ServerCA)) != string(read(t, p.Files.ServerCA.Cert)) ||
			string(read(t, files.ClientCA)) != string(read(t, p.Files.ClientCA.Cert)) {
			t.Error("a renewal does not bring the new CAs")
		}
		works(t, "a node with a new certificate", nodeConfig(t, p.URL, files))
		joinAs(t, node("worker", oldToken)) // the agent is started again, with the token that it is set up with
		joinAs(t, node("second", oldToken))
		joinAs(t, node("third", newToken))
		signed(t, p, "request")
		eventually(t, "the new CA for pods", func(ctx context.Context) (bool, error) {
			m, err := p.Client.CoreV1().ConfigMaps("default").Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			return err == nil && m.Data["ca.crt"] == string(read(t, p.Files.ServerCA.Cert)), nil
		})
	})
	if !ok {
		return
	}
	rotate(pki.RotateOptions{Finish: true})
	t.Run("after", func(t *testing.T) {
		p := planes.Start(t, settings(data))
		if p.Token != newToken {
			t.Error("the token changed once more")
		}
		old, err := clientcmd.RESTConfigFromKubeConfig(oldKubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		if err := list(t, old); !unknownAuthority(err) {
			t.Errorf("the old kubeconfig: %v", err)
		}
		old.CAData = read(t, p.Files.ServerCA.Cert)
		if err := list(t, old); !apierrors.IsUnauthorized(err) {
			t.Errorf("an old client certificate: %v", err)
		}
		works(t, "a service account",
			&rest.Config{Host: p.URL, BearerToken: account, TLSClientConfig: rest.TLSClientConfig{CAData: old.CAData}})
		// Agents start with the token that they are set up with.
		for name, token := range map[string]string{"worker": oldToken, "second": oldToken, "third": newToken} {
			joinAs(t, node(name, token))
			files := pki.NodeFilesIn(filepath.Join(dir, name, "tls"))
			if string(read(t, files.ServerCA)) != string(old.CAData) {
				t.Errorf("node %s trusts another CA than the new one", name)
			}
			works(t, "node "+name, nodeConfig(t, p.URL, files))
		}
		joinAs(t, node("fourth", newToken))
		var refused *problem.Input
		for _, name := range []string{"fifth", "late"} { // a new one, and one that missed the change
			if _, err := join.Join(t.Context(), node(name, oldToken)); !errors.As(err, &refused) {
				t.Errorf("node %s joins with a token of the old CA: %v", name, err)
			}
		}
		joinAs(t, node("late", newToken))
		signed(t, p, "again")
	})
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func joinAs(t *testing.T, opts join.Options) {
	t.Helper()
	if _, err := join.Join(t.Context(), opts); err != nil {
		t.Fatalf("node %s: %v", opts.NodeName, err)
	}
}

func nodeConfig(t *testing.T, url string, files pki.NodeFiles) *rest.Config {
	t.Helper()
	return &rest.Config{Host: url, TLSClientConfig: rest.TLSClientConfig{CAData: read(t, files.ServerCA),
		CertData: read(t, files.Client.Cert), KeyData: read(t, files.Client.Key)}}
}

func list(t *testing.T, cfg *rest.Config) error {
	t.Helper()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.CoreV1().Services("").List(t.Context(), metav1.ListOptions{})
	return err
}

func works(t *testing.T, who string, cfg *rest.Config) {
	t.Helper()
	if err := list(t, cfg); err != nil {
		t.Errorf("%s: %v", who, err)
	}
}

func unknownAuthority(err error) bool {
	var unknown x509.UnknownAuthorityError
	return errors.As(err, &unknown)
}

// signed has a certificate signed by the controller manager and uses it.
func signed(t *testing.T, p *planes.Plane, name string) {
	t.Helper()
	key, keyPEM, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader,
		&x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	requests := p.Client.CertificatesV1().CertificateSigningRequests()
	csr, err := requests.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type:   certificatesv1.CertificateApproved,
		Status: corev1.ConditionTrue,
		Reason: "Test",
	})
	if _, err := requests.UpdateApproval(t.Context(), name, csr, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	var last error
	eventually(t, "a signed certificate that is good", func(ctx context.Context) (bool, error) {
		got, err := requests.Get(ctx, name, metav1.GetOptions{})
		if err != nil || len(got.Status.Certificate) == 0 {
			return false, err
		}
		if n := strings.Count(string(got.Status.Certificate), "BEGIN CERTIFICATE"); n != 1 {
			t.Errorf("%d certificates", n)
		}
		last = list(t, &rest.Config{Host: p.URL, TLSClientConfig: rest.TLSClientConfig{CAFile: p.Files.ServerCA.Cert,
			CertData: got.Status.Certificate, KeyData: keyPEM}})
		return last == nil, nil
	})
	if last != nil {
		t.Error(last)
	}
}
