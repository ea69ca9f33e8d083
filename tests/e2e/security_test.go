package e2e

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/hosts"
)

func TestSecretsEncryptionAndAuditLog(t *testing.T) {
	t.Parallel()
	const audit = "/var/lib/a4s/audit.log"
	c := ownCluster(t, "encrypted", "--disable-agent", "--secrets-encryption", "--audit-log-path", audit)
	ns := c.namespace(t)
	const plain = "words-that-only-the-api-may-tell"
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "sealed"},
		StringData: map[string]string{"word": plain}}
	if _, err := c.client.CoreV1().Secrets(ns).Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	hosts.Until(t, soon, "the audit log tells who made the Secret", func(context.Context) error {
		b, err := os.ReadFile(c.host.Path(audit))
		if err != nil {
			return err
		}
		for line := range strings.SplitSeq(string(b), "\n") {
			if strings.Contains(line, `"verb":"create"`) && strings.Contains(line, `"name":"sealed"`) &&
				strings.Contains(line, `"username":"`) {
				if strings.Contains(string(b), plain) {
					t.Error("the audit log has the content of the Secret")
				}
				return nil
			}
		}
		return errors.New("no such line")
	})

	// Everything is in the files of etcd once it has closed them.
	if err := c.proc.Stop(stopTimeout); err != nil {
		t.Fatal(err)
	}
	key := []byte("/registry/secrets/" + ns + "/sealed")
	found := false
	err := filepath.WalkDir(c.host.Path(dataDir+"/server/db"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.Contains(b, []byte(plain)) {
			t.Errorf("%s has the plain text", filepath.Base(path))
		}
		for rest := b; ; {
			i := bytes.Index(rest, key)
			if i < 0 {
				return nil
			}
			rest = rest[i+len(key):]
			// The value follows the key after a few numbers.
			found = found || bytes.Contains(rest[:min(len(rest), 64)], []byte("k8s:enc:"))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if !found {
		t.Errorf("no value of %s begins with k8s:enc:", key)
	}

	c.restart(t)
	got, err := c.client.CoreV1().Secrets(ns).Get(t.Context(), "sealed", metav1.GetOptions{})
	if err != nil || string(got.Data["word"]) != plain {
		t.Errorf("after a restart the Secret is %q (%v)", got.Data["word"], err)
	}
}

func TestKubeletAndAPIRefuseStrangers(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace(t)
	token, err := c.client.CoreV1().ServiceAccounts(ns).CreateToken(t.Context(), "default",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The status is the answer; whose certificate it came with is not asked.
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for _, tc := range []struct {
		name, url, token string
		want             int
	}{
		{"kubelet, anonymous", "https://" + net.JoinHostPort(c.host.IP.String(), "10250") + "/pods", "",
			http.StatusUnauthorized},
		{"kubelet, bad token", "https://" + net.JoinHostPort(c.host.IP.String(), "10250") + "/pods", "nonsense",
			http.StatusUnauthorized},
		{"kubelet, no right to it", "https://" + net.JoinHostPort(c.host.IP.String(), "10250") + "/pods",
			token.Status.Token, http.StatusForbidden},
		{"API, anonymous", c.url() + "/api/v1/nodes", "", http.StatusUnauthorized},
		{"API, no right to it", c.url() + "/api/v1/nodes", token.Status.Token, http.StatusForbidden},
		{"supervisor, no token", c.url() + "/v1-a4s/config", "", http.StatusUnauthorized},
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tc.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tc.token != "" {
			req.Header.Set("Authorization", "Bearer "+tc.token)
		}
		resp, err := client.Do(req)
		if err != nil {
			t.Errorf("%s: %v", tc.name, err)
			continue
		}
		body, _ := io.ReadAll(io.LimitReader(resp.Body, 300))
		resp.Body.Close()
		// Whether anonymous users exist at all is the API server's decision.
		if resp.StatusCode != tc.want &&
			(tc.token != "" || !strings.HasPrefix(tc.name, "API") || resp.StatusCode != http.StatusForbidden) {
			t.Errorf("%s: %s, want %d: %s", tc.name, resp.Status, tc.want, body)
		}
	}
	// What has no authentication listens on loopback only, if at all.
	for _, port := range []string{"2379", "2380", "10248", "10249", "10255", "10256", "10257", "10259"} {
		conn, err := (&net.Dialer{Timeout: soon}).DialContext(t.Context(), "tcp",
			net.JoinHostPort(c.host.IP.String(), port))
		if err == nil {
			conn.Close()
			t.Errorf("port %s is open to the network", port)
		}
	}
}

func TestNodeCredentialIsConfined(t *testing.T) {
	t.Parallel()
	c := sharedCluster(t)
	ns := c.namespace(t)
	if _, err := c.client.CoreV1().Secrets(ns).Create(t.Context(),
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "private"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const other = "someone-else"
	if _, err := c.client.CoreV1().Nodes().Create(t.Context(),
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: other}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.client.CoreV1().Nodes().Delete(context.Background(), other, metav1.DeleteOptions{}) })
	kubelet := []string{"kubectl", "--kubeconfig", dataDir + "/agent/node.kubeconfig"}
	as := func(args ...string) hosts.Result { return c.a4s(t, append(kubelet, args...)...) }
	if r := as("get", "node", c.host.Name); r.ExitCode != 0 {
		t.Errorf("a node cannot read itself: %s", r.Stderr)
	}
	for _, args := range [][]string{
		{"get", "secret", "private", "--namespace", ns},
		{"get", "secrets", "--all-namespaces"},
		{"label", "node", other, "a=b"},
		{"label", "node", c.host.Name, "node-role.kubernetes.io/control-plane=me", "--overwrite"},
		{"delete", "namespace", ns},
	} {
		if r := as(args...); r.ExitCode == 0 || !strings.Contains(r.Stderr, "orbidden") {
			t.Errorf("as a node, kubectl %v: exit code %d: %s", args, r.ExitCode, r.Stderr)
		}
	}
	if _, err := c.client.CoreV1().Secrets(ns).Get(t.Context(), "private",
		metav1.GetOptions{}); apierrors.IsNotFound(err) {
		t.Error("the Secret is gone")
	}
}
