package joining

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/jointoken"
	"github.com/a4s-io/a4s/internal/pki"
)

func mustGet(t *testing.T, c *cluster, name string) *corev1.Secret {
	t.Helper()
	obj, err := c.secrets.Get(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return obj
}

// nodeRequest returns a valid request, changed by edit.
func nodeRequest(t *testing.T, edit func(*joinapi.NodeRequest)) string {
	t.Helper()
	key, _, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	csr, err := pki.NewCSR(key)
	if err != nil {
		t.Fatal(err)
	}
	req := joinapi.NodeRequest{NodeName: "n1", NodePassword: "0123456789abcdef0123456789abcdef",
		NodeIPs: []string{"192.0.2.10"}, ClientCSR: csr, ServingCSR: csr}
	if edit != nil {
		edit(&req)
	}
	data, err := json.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// wantStatus fails unless body is a metav1.Status with that code.
func wantStatus(t *testing.T, body string, code int) metav1.Status {
	t.Helper()
	var s metav1.Status
	if err := json.Unmarshal([]byte(body), &s); err != nil || s.Kind != "Status" ||
		int(s.Code) != code || s.Message == "" {
		t.Errorf("body %s, want a Status with code %d: %v", body, code, err)
	}
	return s
}

func TestAccess(t *testing.T) {
	c := newCluster(t)
	res := c.mustJoin(c.machine("n1"))
	anonymous := c.client(pki.Pair{})
	node := c.client(pki.Pair{Cert: res.ClientCert, Key: res.ClientKey})
	admin := c.client(c.files.Admin)
	serving := c.client(c.files.ServingAPIServer) // another CA's certificate
	scheduler := c.client(c.files.Scheduler)
	good, basic := c.tokens.Server().Authorization(), func(user, password string) string {
		return "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	}
	for _, tc := range []struct {
		name         string
		client       *http.Client
		method, path string
		auth, body   string
		want         int
	}{
		{"ping", anonymous, "GET", joinapi.PathPing, "", "", 200},
		{"ping wrong method", anonymous, "POST", joinapi.PathPing, "", "", 405},
		{"CA", anonymous, "GET", joinapi.PathCACerts, "", "", 200},
		{"API path", anonymous, "GET", "/api", "", "", 200},
		{"unknown path", anonymous, "GET", joinapi.Prefix + "x", good, "", 404},
		{"config anonymous", anonymous, "GET", joinapi.PathConfig, "", "", 401},
		{"config token", anonymous, "GET", joinapi.PathConfig, good, "", 200},
		{"config node", node, "GET", joinapi.PathConfig, "", "", 200},
		{"config wrong method", node, "DELETE", joinapi.PathConfig, "", "", 405},
		{"config foreign certificate", serving, "GET", joinapi.PathConfig, "", "", 401},
		{"config other user", scheduler, "GET", joinapi.PathConfig, "", "", 403},
		{"wrong password", anonymous, "GET", joinapi.PathConfig, basic("server", "x"), "", 401},
		{"empty password", anonymous, "GET", joinapi.PathConfig, basic("node", ""), "", 401},
		{"unknown user", anonymous, "GET", joinapi.PathConfig, basic("admin", serverPassword), "", 401},
		{"bearer that is no bootstrap token", anonymous, "GET", joinapi.PathConfig,
			"Bearer " + serverPassword, "", 401},
		{"wrong password beats a good certificate", node, "GET", joinapi.PathConfig, basic("server", "x"), "", 401},
		{"node by GET", node, "GET", joinapi.PathNode, "", "", 405},
		{"node anonymous", anonymous, "POST", joinapi.PathNode, "", nodeRequest(t, nil), 401},
		{"node not JSON", anonymous, "POST", joinapi.PathNode, good, "x", 400},
		{"node too large", anonymous, "POST", joinapi.PathNode, good,
			`{"nodeName":"` + strings.Repeat("a", joinapi.MaxBody) + `"}`, 413},
		{"node for itself, other password", node, "POST", joinapi.PathNode, "", nodeRequest(t, nil), 403},
		{"node for another", node, "POST", joinapi.PathNode, "",
			nodeRequest(t, func(r *joinapi.NodeRequest) { r.NodeName = "n2" }), 403},
		{"node by admin", admin, "POST", joinapi.PathNode, "",
			nodeRequest(t, func(r *joinapi.NodeRequest) { r.NodeName = "n3" }), 403},
		{"server", anonymous, "GET", joinapi.PathServer, good, "", 200},
		{"server anonymous", anonymous, "GET", joinapi.PathServer, "", "", 401},
		{"server agent token", anonymous, "GET", joinapi.PathServer, basic("node", agentPassword), "", 403},
		{"server agent token as server", anonymous, "GET", joinapi.PathServer,
			basic("server", agentPassword), "", 401},
		{"server node", node, "GET", joinapi.PathServer, "", "", 403},
		{"server admin", admin, "GET", joinapi.PathServer, "", "", 403},
		{"members", admin, "GET", joinapi.PathMembers, "", "", 200},
		{"members token", anonymous, "GET", joinapi.PathMembers, good, "", 403},
		{"members node", node, "GET", joinapi.PathMembers, "", "", 403},
		{"remove a member", admin, "POST", joinapi.PathRemoveMember, "", `{"member":"two"}`, 200},
		{"remove the last member", admin, "POST", joinapi.PathRemoveMember, "", `{"member":"one"}`, 409},
		{"remove a member of few", admin, "POST", joinapi.PathRemoveMember, "", `{"member":"sick"}`, 409},
		{"remove no member", admin, "POST", joinapi.PathRemoveMember, "", `{"member":"none"}`, 404},
		{"remove a member token", anonymous, "POST", joinapi.PathRemoveMember, good, `{"member":"two"}`, 403},
		{"remove a member node", node, "POST", joinapi.PathRemoveMember, "", `{"member":"two"}`, 403},
		{"status", admin, "GET", joinapi.PathStatus, "", "", 200},
		{"status node", node, "GET", joinapi.PathStatus, "", "", 403},
		{"status token", anonymous, "GET", joinapi.PathStatus, good, "", 403},
		{"use of tenants", admin, "GET", joinapi.PathTenantUse, "", "", 200},
		{"use of tenants node", node, "GET", joinapi.PathTenantUse, "", "", 403},
		{"use of tenants token", anonymous, "GET", joinapi.PathTenantUse, good, "", 403},
		{"use of tenants anonymous", anonymous, "GET", joinapi.PathTenantUse, "", "", 401},
		{"use of tenants other user", scheduler, "GET", joinapi.PathTenantUse, "", "", 403},
		{"partition states of a server without partitions", admin, "GET", joinapi.PathPartitionStates, "", "", 404},
		{"partition states node", node, "GET", joinapi.PathPartitionStates, "", "", 403},
		{"partition states token", anonymous, "GET", joinapi.PathPartitionStates, good, "", 403},
		{"partition states anonymous", anonymous, "GET", joinapi.PathPartitionStates, "", "", 401},
		{"certificates", admin, "POST", joinapi.PathCertificates, "", "", 200},
		{"certificates node", node, "POST", joinapi.PathCertificates, "", "", 403},
		{"certificates token", anonymous, "POST", joinapi.PathCertificates, good, "", 403},
		{"certificates anonymous", anonymous, "POST", joinapi.PathCertificates, "", "", 401},
		{"token node", node, "PUT", joinapi.PathToken, "", `{"which":"server"}`, 403},
		{"token token", anonymous, "PUT", joinapi.PathToken, good, `{"which":"server"}`, 403},
		{"packet filter node", node, "GET", joinapi.PathPacketFilter, "", "", 503},
		{"packet filter anonymous", anonymous, "GET", joinapi.PathPacketFilter, "", "", 401},
		{"packet filter token", anonymous, "GET", joinapi.PathPacketFilter, good, "", 403},
		{"packet filter admin", admin, "GET", joinapi.PathPacketFilter, "", "", 403},
		{"packet filter other user", scheduler, "GET", joinapi.PathPacketFilter, "", "", 403},
		{"pod addresses node", node, "GET", joinapi.PathPodAddresses, "", "", 503},
		{"pod addresses anonymous", anonymous, "GET", joinapi.PathPodAddresses, "", "", 401},
		{"pod addresses token", anonymous, "GET", joinapi.PathPodAddresses, good, "", 403},
		{"pod addresses admin", admin, "GET", joinapi.PathPodAddresses, "", "", 403},
		{"pod addresses other user", scheduler, "GET", joinapi.PathPodAddresses, "", "", 403},
		{"network policies node", node, "GET", joinapi.PathNetworkPolicies, "", "", 404},
		{"network policies anonymous", anonymous, "GET", joinapi.PathNetworkPolicies, "", "", 401},
		{"network policies token", anonymous, "GET", joinapi.PathNetworkPolicies, good, "", 403},
		{"network policies admin", admin, "GET", joinapi.PathNetworkPolicies, "", "", 403},
		{"network policies other user", scheduler, "GET", joinapi.PathNetworkPolicies, "", "", 403},
		{"ingresses node", node, "GET", joinapi.PathIngress, "", "", 404},
		{"ingresses anonymous", anonymous, "GET", joinapi.PathIngress, "", "", 401},
		{"ingresses token", anonymous, "GET", joinapi.PathIngress, good, "", 403},
		{"ingresses admin", admin, "GET", joinapi.PathIngress, "", "", 403},
		{"ingresses other user", scheduler, "GET", joinapi.PathIngress, "", "", 403},
		{"partitions anonymous", anonymous, "GET", joinapi.PathPartitions, "", "", 401},
		{"partitions token", anonymous, "GET", joinapi.PathPartitions, good, "", 403},
		{"partitions admin", admin, "GET", joinapi.PathPartitions, "", "", 403},
		{"partitions other user", scheduler, "GET", joinapi.PathPartitions, "", "", 403},
		{"partitions node, unknown", node, "GET", joinapi.PathPartitions, "", "", 503},
		{"local volumes node", node, "GET", joinapi.PathLocalVolumes, "", "", 503},
		{"local volumes anonymous", anonymous, "GET", joinapi.PathLocalVolumes, "", "", 401},
		{"local volumes token", anonymous, "GET", joinapi.PathLocalVolumes, good, "", 403},
		{"local volumes admin", admin, "GET", joinapi.PathLocalVolumes, "", "", 403},
		{"local volume done", node, "POST", joinapi.PathLocalVolumeDone, "", `{"name":"pvc-1"}`, 204},
		{"local volume of another node", node, "POST", joinapi.PathLocalVolumeDone, "", `{"name":"pvc-2"}`, 404},
		{"local volume not JSON", node, "POST", joinapi.PathLocalVolumeDone, "", "x", 400},
		{"local volume token", anonymous, "POST", joinapi.PathLocalVolumeDone, good, `{"name":"pvc-1"}`, 403},
		{"local volume admin", admin, "POST", joinapi.PathLocalVolumeDone, "", `{"name":"pvc-1"}`, 403},
		{"token unknown", admin, "PUT", joinapi.PathToken, "", `{"which":"root"}`, 400},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, header, body := c.send(tc.client, tc.method, tc.path, tc.auth, tc.body)
			if code != tc.want {
				t.Fatalf("%d %s, want %d", code, body, tc.want)
			}
			if code >= 400 {
				wantStatus(t, body, code)
			}
			if got := header.Get("WWW-Authenticate"); (code == 401) != (got != "") {
				t.Errorf("WWW-Authenticate %q with %d", got, code)
			}
		})
	}
	if _, err := c.secrets.Get(t.Context(), "n2.node-password.a4s"); err == nil {
		t.Error("a refused request bound a node name")
	}
}

func TestOpenEndpoints(t *testing.T) {
	c := newCluster(t)
	anonymous := c.client(pki.Pair{})
	for path, want := range map[string]string{joinapi.PathPing: "pong",
		joinapi.PathCACerts: readCert(t, c.files.ServerCA.Cert), "/apis": "next"} {
		if _, _, body := c.send(anonymous, "GET", path, "", ""); body != want {
			t.Errorf("%s: %q", path, body)
		}
	}
	_, _, body := c.send(c.client(c.files.Admin), "GET", joinapi.PathStatus, "", "")
	var status joinapi.ServerStatus
	if err := json.Unmarshal([]byte(body), &status); err != nil || status.Version != "v-test" {
		t.Errorf("status %s, %v", body, err)
	}
}

func TestNodeRequestIsValidated(t *testing.T) {
	c := newCluster(t)
	anonymous := c.client(pki.Pair{})
	for _, tc := range []struct {
		name  string
		edit  func(*joinapi.NodeRequest)
		field string // "" means accepted
		auth  jointoken.Token
	}{
		{"good", func(*joinapi.NodeRequest) {}, "", c.tokens.Agent()},
		{"dual stack",
			func(r *joinapi.NodeRequest) { r.NodeName = "n6"; r.NodeIPs = append(r.NodeIPs, "2001:db8::1") },
			"", c.tokens.Agent()},
		{"no name", func(r *joinapi.NodeRequest) { r.NodeName = "" }, "nodeName", c.tokens.Agent()},
		{"capitals", func(r *joinapi.NodeRequest) { r.NodeName = "Node" }, "nodeName", c.tokens.Agent()},
		{"path", func(r *joinapi.NodeRequest) { r.NodeName = "../x" }, "nodeName", c.tokens.Agent()},
		{"long", func(r *joinapi.NodeRequest) { r.NodeName = strings.Repeat("a", 64) }, "nodeName", c.tokens.Agent()},
		{"name of the API", func(r *joinapi.NodeRequest) { r.NodeName = "kubernetes.default.svc.cluster.local" },
			"nodeName", c.tokens.Server()},
		{"name of the server", func(r *joinapi.NodeRequest) { r.NodeName = "api.example" },
			"nodeName", c.tokens.Server()},
		{"address as name", func(r *joinapi.NodeRequest) { r.NodeName = "10.43.0.1" }, "nodeName", c.tokens.Server()},
		{"no address", func(r *joinapi.NodeRequest) { r.NodeIPs = nil }, "nodeIPs", c.tokens.Agent()},
		{"not an address", func(r *joinapi.NodeRequest) { r.NodeIPs = []string{"x"} }, "nodeIPs", c.tokens.Agent()},
		{"loopback", func(r *joinapi.NodeRequest) { r.NodeIPs = []string{"::1"} }, "nodeIPs", c.tokens.Agent()},
		{"service address", func(r *joinapi.NodeRequest) { r.NodeIPs = []string{"10.43.0.1"} },
			"nodeIPs", c.tokens.Server()},
		{"address of the server", func(r *joinapi.NodeRequest) { r.NodeIPs = []string{"::ffff:192.0.2.1"} },
			"nodeIPs", c.tokens.Server()},
		{"name of another server", func(r *joinapi.NodeRequest) { r.NodeName = "other" },
			"nodeName", c.tokens.Server()},
		{"address of another server", func(r *joinapi.NodeRequest) { r.NodeIPs = []string{"192.0.2.2"} },
			"nodeIPs", c.tokens.Server()},
		{"short password", func(r *joinapi.NodeRequest) { r.NodePassword = "x" }, "nodePassword", c.tokens.Agent()},
		{"no CSR", func(r *joinapi.NodeRequest) { r.ClientCSR = nil }, "clientCSR", c.tokens.Agent()},
		{"the server's own node",
			func(r *joinapi.NodeRequest) { r.NodeName = "local"; r.NodeIPs = []string{"192.0.2.1"} },
			"", c.tokens.Server()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, _, body := c.send(anonymous, "POST", joinapi.PathNode, tc.auth.Authorization(),
				nodeRequest(t, tc.edit))
			if tc.field == "" {
				if code != 200 {
					t.Fatalf("%d %s", code, body)
				}
				return
			}
			if s := wantStatus(t, body, 422); s.Details == nil || s.Details.Causes[0].Field != tc.field {
				t.Errorf("%s, want field %s", body, tc.field)
			}
		})
	}
	code, _, body := c.send(anonymous, "POST", joinapi.PathNode, c.tokens.Agent().Authorization(),
		nodeRequest(t, func(r *joinapi.NodeRequest) { r.NodeName = "local" }))
	if s := wantStatus(t, body, 403); code != 403 || s.Reason != joinapi.ReasonNodeNameTaken {
		t.Errorf("the agent token for the server's own node: %d %s", code, body)
	}
	// A server that lost its disk has another password, and its token. That
	// token may be that of nodes, too, so other machines prove nothing by it.
	for _, tc := range []struct {
		name, from string
		want       int
	}{
		{"local", "198.51.100.9:1234", 403},
		{"local", "192.0.2.1:1234", 200}, // an address of the server
		{"local", "", 200},
		{"n6", "", 403},
	} {
		c.mu.Lock()
		c.remote = tc.from
		c.mu.Unlock()
		again := nodeRequest(t, func(r *joinapi.NodeRequest) {
			r.NodeName, r.NodePassword = tc.name, strings.Repeat("other", 5)+tc.from
		})
		if code, _, body := c.send(anonymous, "POST", joinapi.PathNode, c.tokens.Server().Authorization(),
			again); code != tc.want {
			t.Errorf("%s with another password and the server token, from %q: %d %s, want %d", tc.name, tc.from,
				code, body, tc.want)
		}
	}
}

func TestSubjectIsTheServersDecision(t *testing.T) {
	c := newCluster(t)
	key, _, err := pki.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	greedy, err := newGreedyCSR(key)
	if err != nil {
		t.Fatal(err)
	}
	_, _, body := c.send(c.client(pki.Pair{}), "POST", joinapi.PathNode, c.tokens.Agent().Authorization(),
		nodeRequest(t, func(r *joinapi.NodeRequest) { r.ClientCSR, r.ServingCSR = greedy, greedy }))
	var resp joinapi.NodeResponse
	if err := json.Unmarshal([]byte(body), &resp); err != nil {
		t.Fatal(err)
	}
	for _, data := range [][]byte{resp.ClientCert, resp.ServingCert} {
		certs, err := pki.ParseCerts(data)
		if err != nil {
			t.Fatal(err)
		}
		cert := certs[0]
		if cert.Subject.CommonName != "system:node:n1" ||
			strings.Join(cert.Subject.Organization, ",") != "system:nodes" ||
			cert.IsCA || cert.VerifyHostname("api.example") == nil || len(cert.ExtKeyUsage) != 1 {
			t.Errorf("the request decided about the certificate: %v %v CA=%v", cert.Subject, cert.DNSNames, cert.IsCA)
		}
	}
	if certs, _ := pki.ParseCerts(resp.ClientCert); certs[0].ExtKeyUsage[0] != x509.ExtKeyUsageClientAuth {
		t.Error("the client certificate is not for clients")
	}
}

func TestNodePasswordIsKeptAsAHash(t *testing.T) {
	c := newCluster(t)
	opts := c.machine("n1")
	c.mustJoin(opts)
	password, err := os.ReadFile(opts.NodePasswordFile)
	if err != nil {
		t.Fatal(err)
	}
	obj := mustGet(t, c, "n1.node-password.a4s")
	if obj.Immutable == nil || !*obj.Immutable || obj.Namespace != "kube-system" {
		t.Errorf("secret %+v", obj.ObjectMeta)
	}
	for k, v := range obj.Data {
		if strings.Contains(string(v), strings.TrimSpace(string(password))) {
			t.Errorf("%s holds the password", k)
		}
	}
}

func TestFirstOfManyBindsTheName(t *testing.T) {
	c := newCluster(t)
	anonymous := c.client(pki.Pair{})
	const machines = 10
	codes := make(chan int, machines)
	var wg sync.WaitGroup
	for i := range machines {
		body := nodeRequest(t, func(r *joinapi.NodeRequest) { r.NodePassword += string(rune('a' + i)) })
		wg.Go(func() {
			code, _, _ := c.send(anonymous, "POST", joinapi.PathNode, c.tokens.Agent().Authorization(), body)
			codes <- code
		})
	}
	wg.Wait()
	close(codes)
	won := 0
	for code := range codes {
		switch code {
		case 200:
			won++
		case 403:
		default:
			t.Errorf("code %d", code)
		}
	}
	if won != 1 {
		t.Errorf("%d machines hold the name, want 1", won)
	}
}

func TestBootstrapTokens(t *testing.T) {
	c := newCluster(t)
	anonymous := c.client(pki.Pair{})
	future, past := time.Now().Add(time.Hour).Format(time.RFC3339), time.Now().Add(-time.Second).Format(time.RFC3339)
	const secret = "0123456789abcdef"
	for _, tc := range []struct {
		name string
		edit func(*corev1.Secret)
		want int
	}{
		{"valid", func(*corev1.Secret) {}, 200},
		{"without end", func(s *corev1.Secret) { delete(s.Data, "expiration") }, 200},
		{"expired", func(s *corev1.Secret) { s.Data["expiration"] = []byte(past) }, 401},
		{"unreadable end", func(s *corev1.Secret) { s.Data["expiration"] = []byte("tomorrow") }, 401},
		{"not for authentication", func(s *corev1.Secret) { delete(s.Data, "usage-bootstrap-authentication") }, 401},
		{"other secret", func(s *corev1.Secret) { s.Data["token-secret"] = []byte("fedcba9876543210") }, 401},
		{"no secret", func(s *corev1.Secret) { delete(s.Data, "token-secret") }, 401},
		{"other id", func(s *corev1.Secret) { s.Data["token-id"] = []byte("zzzzzz") }, 401},
		{"other type", func(s *corev1.Secret) { s.Type = corev1.SecretTypeOpaque }, 401},
		{"being deleted", func(s *corev1.Secret) { s.DeletionTimestamp = &metav1.Time{Time: time.Now()} }, 401},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obj := &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: "bootstrap-token-abcdef"}, Type: "bootstrap.kubernetes.io/token",
				Data: map[string][]byte{"token-id": []byte("abcdef"), "token-secret": []byte(secret),
					"expiration": []byte(future), "usage-bootstrap-authentication": []byte("true")},
			}
			tc.edit(obj)
			c.secrets.mu.Lock()
			c.secrets.objects[obj.Name] = obj
			c.secrets.mu.Unlock()
			for _, auth := range []string{"Bearer abcdef." + secret,
				"Basic " + base64.StdEncoding.EncodeToString([]byte("abcdef:"+secret))} {
				if code, _, body := c.send(anonymous, "POST", joinapi.PathNode, auth,
					nodeRequest(t, nil)); code != tc.want {
					t.Errorf("%d %s, want %d", code, body, tc.want)
				}
			}
		})
	}
	c.secrets.fail(errors.New("down"))
	code, header, _ := c.send(anonymous, "GET", joinapi.PathConfig, "Bearer abcdef."+secret, "")
	if code != 503 || header.Get("Retry-After") == "" {
		t.Errorf("without the API: %d, Retry-After %q", code, header.Get("Retry-After"))
	}
}

func TestTokenRotation(t *testing.T) {
	c := newCluster(t)
	anonymous, admin := c.client(pki.Pair{}), c.client(c.files.Admin)
	old := c.tokens.Server().Authorization()
	code, _, body := c.send(admin, "PUT", joinapi.PathToken, "", `{"which":"server"}`)
	var resp joinapi.TokenResponse
	if err := json.Unmarshal([]byte(body), &resp); code != 200 || err != nil {
		t.Fatalf("%d %s", code, body)
	}
	tok, err := jointoken.Parse("x", resp.Token)
	if err != nil || tok != c.tokens.Server() {
		t.Fatalf("returned token: %v", err)
	}
	for auth, want := range map[string]int{old: 401, tok.Authorization(): 200} {
		if code, _, _ := c.send(anonymous, "GET", joinapi.PathConfig, auth, ""); code != want {
			t.Errorf("%d, want %d", code, want)
		}
	}
	if _, err := jointoken.EnsureServerTokens(c.dir, serverPassword, "",
		[]byte(readCert(t, c.files.ServerCA.Cert))); err == nil {
		t.Error("the old token is accepted at the next start")
	}
	if got, err := jointoken.ReadFile("x", c.dir+"/token"); err != nil || got != resp.Token {
		t.Errorf("the file does not hold the new token: %v", err)
	}
}

func TestTooManyJoinsAtOnce(t *testing.T) {
	c := newCluster(t)
	anonymous := c.client(pki.Pair{})
	good := c.tokens.Agent().Authorization()
	var bodies []*io.PipeWriter
	var wg sync.WaitGroup
	// hold sends a request that holds its slot until its body is complete.
	hold := func() {
		r, w := io.Pipe()
		bodies = append(bodies, w)
		req, err := http.NewRequestWithContext(t.Context(), "POST", c.server.URL+joinapi.PathNode, r)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", good)
		wg.Go(func() {
			resp, err := anonymous.Do(req)
			if err == nil {
				_ = resp.Body.Close()
			}
		})
		// The client closes the pipe if the answer comes before the body.
		if _, err := w.Write([]byte("{")); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Fatal(err)
		}
	}
	deadline := time.Now().Add(2 * time.Minute)
	for {
		// One of these is refused if it meets a slot held by the request
		// below, so there may be more of them than slots.
		hold()
		code, header, body := c.send(anonymous, "GET", joinapi.PathConfig, good, "")
		if code == 429 {
			wantStatus(t, body, 429)
			if header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d although %d requests hold slots", code, len(bodies))
		}
	}
	if len(bodies) < 20 {
		t.Errorf("refused beside %d others, want 20", len(bodies))
	}
	if code, _, _ := c.send(c.client(c.files.Admin), "GET", joinapi.PathStatus, "", ""); code != 200 {
		t.Errorf("an administrator gets %d", code)
	}
	for _, w := range bodies {
		_ = w.Close()
	}
	wg.Wait()
	if code, _, body := c.send(anonymous, "GET", joinapi.PathConfig, good, ""); code != 200 {
		t.Errorf("after the overload: %d %s", code, body)
	}
}
