package e2e

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/server/partition/nodeidentity"
	"github.com/a4s-io/a4s/tests/hosts"
)

// joinAs asks a server for the certificate of a node, as an agent does.
func joinAs(t *testing.T, c *cluster, name string) (*rest.Config, int, string) {
	t.Helper()
	key, keyPEM, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.NewCSR(key)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(joinapi.NodeRequest{NodeName: name, NodePassword: strings.Repeat("x", 32),
		NodeIPs: []string{"192.0.2.77"}, ClientCSR: csr, ServingCSR: csr})
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(c.config.CAData)
	client := &http.Client{Timeout: soon, Transport: &http.Transport{DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, c.url()+joinapi.PathNode,
		bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	token := c.nodeToken(t)
	req.SetBasicAuth("node", token[strings.LastIndex(token, ":")+1:])
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, resp.StatusCode, string(text)
	}
	var answer joinapi.NodeResponse
	if err := json.Unmarshal(text, &answer); err != nil {
		t.Fatal(err)
	}
	cfg := rest.AnonymousClientConfig(c.config)
	cfg.CertData, cfg.KeyData = answer.ClientCert, keyPEM
	return cfg, resp.StatusCode, ""
}

// at is a client of a server with the certificate of a node.
func at(t *testing.T, c *cluster, cert *rest.Config) kubernetes.Interface {
	t.Helper()
	cfg := rest.CopyConfig(cert)
	cfg.Host = c.url()
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// testNodeNames: a certificate that one partition signed is good in the others for the
// node that this partition has, and for no other.
func testNodeNames(t *testing.T, fleet *hollow, home, rp2, tp2 *cluster) {
	ctx := t.Context()
	for what, c := range map[string]struct {
		at   *cluster
		name string
	}{
		"a name of home, where nodes only are": {rp2, "home-0"},
		"a name of another partition, at home": {home, rp2.host.Name},
	} {
		if _, code, text := joinAs(t, c.at, c.name); code != http.StatusForbidden ||
			!strings.Contains(text, "NodeNameTaken") {
			t.Errorf("%s: %d %s", what, code, text)
		}
	}
	good, code, text := joinAs(t, rp2, "good")
	if good == nil {
		t.Fatalf("a new node cannot join: %d %s", code, text)
	}
	claim, code, text := joinAs(t, rp2, "claim")
	if claim == nil {
		t.Fatalf("a new node cannot join: %d %s", code, text)
	}
	get := func(c *cluster, cert *rest.Config, name string) error {
		_, err := at(t, c, cert).CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err
	}
	create := func(c *cluster, cert *rest.Config, name string) error {
		_, err := at(t, c, cert).CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{})
		return err
	}
	// Before there is such a node it can be made where the certificate is from, only.
	for _, c := range []*cluster{home, tp2} {
		if err := create(c, good, "good"); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "rp2") {
			t.Errorf("%s lets a node of rp2 register: %v", c.host.Name, err)
		}
	}
	if err := create(rp2, good, "good"); err != nil {
		t.Errorf("its own partition does not let it register: %v", err)
	}
	for _, c := range []*cluster{home, tp2} {
		waitCopy(t, rp2, c, "good", "rp2")
		if err := get(c, good, "good"); err != nil {
			t.Errorf("%s does not know the node: %v", c.host.Name, err)
		}
	}
	// A request of a kubelet, approved by an administrator, gets the group too.
	if of, err := nodeidentity.PartitionOf(signedGroups(t, rp2, "good")); err != nil || of != "rp2" {
		t.Errorf("the certificate that was signed for a kubelet is of %q: %v", of, err)
	}
	// The name went to home meanwhile.
	fleet.make(t, home, "claim", "none")
	waitCopy(t, home, tp2, "claim", "main")
	for _, c := range []*cluster{home, tp2} {
		err := get(c, claim, "claim")
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "rp2") {
			t.Errorf("%s takes a node of rp2 for one of home: %v", c.host.Name, err)
		}
		_, err = at(t, c, claim).CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=claim"})
		if !apierrors.IsForbidden(err) {
			t.Errorf("%s shows a node of rp2 the pods of one of home: %v", c.host.Name, err)
		}
	}
	if err := home.client.CoreV1().Nodes().Delete(ctx, "claim", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
	if err := rp2.client.CoreV1().Nodes().Delete(ctx, "good", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}

// testNotReady: the partition of the node says so, and those of the pods mark them.
// signedGroups are those in the client certificate that a partition signs for a kubelet.
func signedGroups(t *testing.T, c *cluster, name string) []string {
	t.Helper()
	ctx := t.Context()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: pki.NodeUserPrefix + name, Organization: []string{pki.GroupNodes}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	requests := c.client.CertificatesV1().CertificateSigningRequests()
	csr, err := requests.Create(ctx, &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "kubelet-" + name},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature,
				certificatesv1.UsageClientAuth},
		}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c.mustKubectl(t, "certificate approve "+csr.Name)
	hosts.Until(t, soon, "the request is signed", func(ctx context.Context) error {
		csr, err = requests.Get(ctx, csr.Name, metav1.GetOptions{})
		if err == nil && len(csr.Status.Certificate) == 0 {
			err = fmt.Errorf("%+v", csr.Status)
		}
		return err
	})
	certs, err := pki.ParseCerts(csr.Status.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	return certs[0].Subject.Organization
}
