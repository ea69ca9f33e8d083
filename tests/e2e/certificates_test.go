package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/tests/hosts"
	"github.com/a4s-io/a4s/tests/load"
)

const (
	// certLife is the shortest that a4s takes.
	certLife = 30 * time.Second
	// lives is how many of them the cluster lives through.
	lives = 10
	// underLoad is how long the load lasts: a little more than these.
	underLoad = lives*certLife + 5*time.Second
)

// newServerOfShortLives is a server whose certificates last for life. Its client reads the
// kubeconfig for each connection, so it has the certificate that is valid now.
func newServerOfShortLives(t *testing.T, name string, life time.Duration, flags ...string) *cluster {
	t.Helper()
	c, err := newServer(newHost(t, name), append(flags, "--certificate-lifetime", life.String())...)
	if err != nil {
		t.Fatal(err)
	}
	c.reportOnFailure(t)
	c.config = &rest.Config{Host: c.url(), Transport: load.Fresh(c.host.Path(kubeconfig)), QPS: -1, Timeout: soon}
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		t.Fatal(err)
	}
	c.waitReady(t)
	return c
}

// TestCertificatesAreRenewedUnderLoad runs a server and its node through
// several lives of all their certificates. No request may fail for it, but for
// logs that are read at that moment. It is not parallel: the lives are so short
// that a machine must not be busy with much else.
func TestCertificatesAreRenewedUnderLoad(t *testing.T) {
	onDemand(t)
	c := newServerOfShortLives(t, "certificates", certLife)
	c.waitOwnNode(t)
	ns := c.namespace(t)
	pod := c.runPod(t, ns, testboxPod("lasting"))

	token, ca := c.rootToken(t, ns), c.host.Path(dataDir+"/server/tls/server-ca.crt")
	kept, anew := load.WithToken(t, c.url(), ca, token, true), load.WithToken(t, c.url(), ca, token, false)
	var work load.Load
	ctx, cancel := context.WithTimeout(t.Context(), underLoad)
	defer cancel()
	work.Run(ctx, "objects, by certificate", func(ctx context.Context, n int) error {
		return c.makeAndDelete(ctx, ns, n)
	})
	work.Run(ctx, "objects, by token on one connection", func(ctx context.Context, _ int) error {
		_, err := kept.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
		return err
	})
	work.Run(ctx, "objects, by token on new connections", func(ctx context.Context, _ int) error {
		_, err := anew.CoreV1().ConfigMaps(ns).List(ctx, metav1.ListOptions{})
		return err
	})
	work.Run(ctx, "logs", func(ctx context.Context, _ int) error {
		logs := kept.CoreV1().Pods(ns).GetLogs(pod.Name, &corev1.PodLogOptions{})
		_, err := logs.DoRaw(ctx)
		if err != nil {
			// The API server cuts its connections to the kubelet when it
			// takes a new certificate; the next one has to work.
			_, err = logs.DoRaw(ctx)
		}
		return err
	})
	work.Run(ctx, "node", func(ctx context.Context, _ int) error {
		n, err := kept.CoreV1().Nodes().Get(ctx, c.host.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			return errors.New("the node is not ready")
		}
		return nil
	})
	seen := map[string]map[time.Time]bool{}
	work.Run(ctx, "check", func(_ context.Context, _ int) error {
		for _, row := range c.certificates(t) {
			if seen[row.File] == nil {
				seen[row.File] = map[time.Time]bool{}
			}
			seen[row.File][row.NotAfter] = true
		}
		time.Sleep(time.Second) // it starts a process
		return nil
	})
	work.Wait(t)

	for file, ends := range seen {
		if len(ends) <= lives && !strings.Contains(file, "-ca.") {
			t.Errorf("%s: %d certificates in %s, each valid for %s", file, len(ends), underLoad, certLife)
		}
	}
	var state struct {
		Components []struct {
			Name, LastError string
			Restarts        int
		}
	}
	if err := json.Unmarshal([]byte(c.must(t, "status", "-o", "json")), &state); err != nil {
		t.Fatal(err)
	}
	for _, component := range state.Components {
		if component.Restarts > 0 {
			t.Errorf("component %s was restarted: %s", component.Name, component.LastError)
		}
	}
	// What only the certificates of node and controllers can do.
	c.runPod(t, ns, testboxPod("fresh"))

	before := c.certificates(t)
	c.must(t, "certificate", "rotate")
	for i, row := range c.certificates(t) {
		if !row.CA && row.Serial == before[i].Serial {
			t.Errorf("rotate left %s as it was", row.File)
		}
	}
	for _, port := range []string{"6443", "10250"} {
		hosts.Until(t, soon, "port "+port+" shows the new certificate", func(context.Context) error {
			cert, err := shown(net.JoinHostPort(c.host.IP.String(), port))
			if err == nil && time.Until(cert.NotAfter) < certLife/2 {
				err = fmt.Errorf("it ends at %s", cert.NotAfter)
			}
			return err
		})
	}
}

// makeAndDelete makes and removes an object as the administrator.
func (c *cluster) makeAndDelete(ctx context.Context, ns string, n int) error {
	maps := c.client.CoreV1().ConfigMaps(ns)
	name := fmt.Sprintf("load-%d", n)
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}},
		metav1.CreateOptions{}); err != nil {
		return err
	}
	return maps.Delete(ctx, name, metav1.DeleteOptions{})
}

// rootToken is one of a service account that may do everything.
func (c *cluster) rootToken(t *testing.T, ns string) string {
	t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: ns + "-load"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: ns, Name: "default"}},
	}
	if _, err := c.client.RbacV1().ClusterRoleBindings().Create(t.Context(), binding,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	request, err := c.client.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return request.Status.Token
}

type certificateRow struct {
	File     string
	CA       bool
	Serial   string
	NotAfter time.Time
}

// certificates is what `certificate check` says, which must be that all is well.
func (c *cluster) certificates(t *testing.T) []certificateRow {
	r := c.a4s(t, "certificate", "check", "-o", "json")
	if r.ExitCode != 0 {
		t.Errorf("certificate check: exit code %d\n%s%s", r.ExitCode, r.Stdout, r.Stderr)
	}
	var rows []certificateRow
	if err := json.Unmarshal([]byte(r.Stdout), &rows); err != nil || len(rows) < 19 {
		t.Errorf("certificate check lists %d certificates: %v", len(rows), err)
	}
	return rows
}

// shown is the certificate of a TLS server.
func shown(address string) (*x509.Certificate, error) {
	conn, err := tls.DialWithDialer(&net.Dialer{Timeout: soon}, "tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0], nil
}
