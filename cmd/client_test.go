package cmd

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/a4s-io/a4s/cmd/tenantadmin"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/pki"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/internal/workload"
)

// fakeServer answers as a4s does where commands ask.
type fakeServer struct {
	url, kubeconfig string
	ca              []byte

	mu       sync.Mutex
	notReady bool
	secrets  []corev1.Secret
	rotated  joinapi.TokenRequest
	removed  joinapi.MemberRequest
	revoked  []string // nodes, and what was deleted
	use      *joinapi.TenantUse
}

func newFakeServer(t *testing.T) *fakeServer {
	t.Helper()
	f := &fakeServer{kubeconfig: filepath.Join(t.TempDir(), "admin.yaml")}
	mux := http.NewServeMux()
	reply := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	}
	locked := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { f.mu.Lock(); defer f.mu.Unlock(); h(w, r) }
	}
	mux.HandleFunc("GET "+joinapi.PathStatus, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, joinapi.ServerStatus{Version: "v1", Kubernetes: "v1.36.3", Components: []joinapi.ComponentStatus{
			{Name: "etcd", Ready: true, Since: time.Now().Add(-5 * time.Minute).Format(time.RFC3339)},
			{Name: "kubelet", Restarts: 3, LastError: "boom\nmore"},
		}})
	})
	mux.HandleFunc("GET "+joinapi.PathTenantUse, locked(func(w http.ResponseWriter, _ *http.Request) {
		if f.use == nil {
			w.WriteHeader(http.StatusForbidden)
			reply(w, metav1.Status{Message: "needs the client certificate of an administrator"})
			return
		}
		reply(w, f.use)
	}))
	mux.HandleFunc("PUT "+joinapi.PathToken, locked(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&f.rotated); err != nil {
			t.Error(err)
		}
		reply(w, joinapi.TokenResponse{Token: "K10new"})
	}))
	mux.HandleFunc("GET "+joinapi.PathMembers, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, joinapi.Members{Members: []joinapi.Member{
			{Name: "one", ID: "a1", Address: "192.0.2.1"},
			{Name: "two", ID: "b2", Address: "192.0.2.2", Learner: true}, {ID: "c3", Address: "192.0.2.3"},
		}})
	})
	mux.HandleFunc("POST "+joinapi.PathRemoveMember, locked(func(w http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&f.removed); err != nil {
			t.Error(err)
		}
		if f.removed.Member == "one" {
			w.WriteHeader(http.StatusConflict)
			reply(w, metav1.Status{Message: "it is the only one"})
			return
		}
		reply(w, struct{}{})
	}))
	mux.HandleFunc("POST "+joinapi.PathRevokeNode, locked(func(w http.ResponseWriter, r *http.Request) {
		var req joinapi.RevokeRequest
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		if req.NodeName == "none" {
			w.WriteHeader(http.StatusNotFound)
			reply(w, metav1.Status{Message: "there is no node none"})
			return
		}
		f.revoked = append(f.revoked, req.NodeName)
		reply(w, joinapi.RevokeResponse{Joined: true, Registered: true})
	}))
	mux.HandleFunc("DELETE /api/v1/nodes/{name}", locked(func(w http.ResponseWriter, r *http.Request) {
		f.revoked = append(f.revoked, "deleted "+r.PathValue("name"))
		reply(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status: metav1.StatusSuccess})
	}))
	mux.HandleFunc("GET /readyz", locked(func(w http.ResponseWriter, _ *http.Request) {
		if f.notReady {
			http.Error(w, "[-]etcd failed", http.StatusInternalServerError)
		}
	}))
	mux.HandleFunc("GET /api/v1/nodes", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, corev1.NodeList{TypeMeta: metav1.TypeMeta{Kind: "NodeList", APIVersion: "v1"}, Items: []corev1.Node{{
			ObjectMeta: metav1.ObjectMeta{Name: "n1",
				CreationTimestamp: metav1.NewTime(time.Now().Add(-2 * time.Hour))},
			Spec: corev1.NodeSpec{Unschedulable: true},
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{
					{Type: corev1.NodeReady, Status: corev1.ConditionTrue},
					{Type: workload.VMRuntimeReady, Status: corev1.ConditionFalse, Reason: "Gone",
						Message: "vms: gone", LastTransitionTime: metav1.NewTime(time.Now().Add(-3 * time.Minute))},
					{
						Type:               workload.ContainerRuntimeReady,
						Status:             corev1.ConditionTrue,
						Reason:             "RuntimeReady",
						Message:            "containerd (containerd 2.3.7): fine",
						LastTransitionTime: metav1.NewTime(time.Now().Add(-90 * time.Minute)),
					},
				},
				Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "n1"},
					{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}},
			},
		}}})
	})
	mux.HandleFunc("GET "+"/api/v1/tenants", func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("limit") != "1" {
			t.Errorf("all tenants are read: %s", r.URL)
		}
		left := int64(11)
		reply(w, tenantapi.TenantList{
			TypeMeta: metav1.TypeMeta{Kind: "TenantList", APIVersion: "v1"},
			ListMeta: metav1.ListMeta{RemainingItemCount: &left}, Items: make([]tenantapi.Tenant, 1)})
	})
	const secrets = "/api/v1/namespaces/kube-system/secrets"
	mux.HandleFunc("POST "+secrets, locked(func(w http.ResponseWriter, r *http.Request) {
		var s corev1.Secret
		body, err := io.ReadAll(r.Body)
		if err == nil {
			_, _, err = scheme.Codecs.UniversalDeserializer().Decode(body, nil, &s)
		}
		if err != nil {
			t.Error(err)
		}
		s.Data = map[string][]byte{}
		for k, v := range s.StringData {
			s.Data[k] = []byte(v)
		}
		f.secrets = append(f.secrets, s)
		reply(w, s)
	}))
	mux.HandleFunc("GET "+secrets, locked(func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query().Get("fieldSelector"); got != "type=bootstrap.kubernetes.io/token" {
			t.Errorf("field selector %q", got)
		}
		reply(w, corev1.SecretList{TypeMeta: metav1.TypeMeta{Kind: "SecretList", APIVersion: "v1"}, Items: f.secrets})
	}))
	mux.HandleFunc("DELETE "+secrets+"/{name}", locked(func(w http.ResponseWriter, r *http.Request) {
		for i := range f.secrets {
			if f.secrets[i].Name == r.PathValue("name") {
				f.secrets = append(f.secrets[:i], f.secrets[i+1:]...)
				reply(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
					Status: metav1.StatusSuccess})
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		reply(w, metav1.Status{TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
			Status: metav1.StatusFailure, Reason: metav1.StatusReasonNotFound, Code: http.StatusNotFound})
	}))
	srv := httptest.NewTLSServer(mux)
	t.Cleanup(srv.Close)
	f.url = srv.URL
	f.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
	writeKubeconfig(t, f.kubeconfig, f.url, f.ca)
	return f
}

func writeKubeconfig(t *testing.T, path, url string, ca []byte) {
	t.Helper()
	cfg := clientcmdapi.NewConfig()
	cfg.Clusters["c"] = &clientcmdapi.Cluster{Server: url, CertificateAuthorityData: ca}
	cfg.AuthInfos["c"] = &clientcmdapi.AuthInfo{}
	cfg.Contexts["c"] = &clientcmdapi.Context{Cluster: "c", AuthInfo: "c"}
	cfg.CurrentContext = "c"
	if err := clientcmd.WriteToFile(*cfg, path); err != nil {
		t.Fatal(err)
	}
}

func (f *fakeServer) run(t *testing.T, args ...string) (string, error) {
	t.Helper()
	_, stdout, _, err := run(t, append(args, "--kubeconfig", f.kubeconfig)...)
	return stdout, err
}

func TestTokenLifecycle(t *testing.T) {
	noConfig(t)
	f := newFakeServer(t)
	hash, err := pki.HashBundle(f.ca)
	if err != nil {
		t.Fatal(err)
	}
	out, err := f.run(t, "token", "create", "abcdef.0123456789abcdef", "--description", "for node 2",
		"--usages", "authentication")
	if want := "K10" + hash + "::abcdef.0123456789abcdef\n"; err != nil || out != want {
		t.Fatalf("create = %q, %v, want %q", out, err, want)
	}
	s := f.secrets[0]
	expires, err := time.Parse(time.RFC3339, s.StringData["expiration"])
	if left := time.Until(expires); err != nil || left < 23*time.Hour || left > 24*time.Hour {
		t.Errorf("expires %v, %v; want in a day", expires, err)
	}
	delete(s.StringData, "expiration")
	for key, want := range map[string]string{
		"token-id": "abcdef", "token-secret": "0123456789abcdef", "description": "for node 2",
		"usage-bootstrap-authentication": "true", "usage-bootstrap-signing": "",
		"auth-extra-groups": "system:bootstrappers:a4s:default-node-token",
	} {
		if got := s.StringData[key]; got != want {
			t.Errorf("%s = %q, want %q", key, got, want)
		}
	}
	if s.Name != "bootstrap-token-abcdef" || s.Type != "bootstrap.kubernetes.io/token" {
		t.Errorf("Secret %s of type %s", s.Name, s.Type)
	}

	random, err := f.run(t, "token", "create", "--ttl", "0")
	if err != nil || f.secrets[1].StringData["expiration"] != "" {
		t.Fatalf("create --ttl 0: %v, %v", err, f.secrets[1].StringData)
	}
	out, err = f.run(t, "token", "list")
	if err != nil || strings.Contains(out, "0123456789abcdef") {
		t.Fatalf("list: %v\n%s", err, out)
	}
	out = strings.Join(strings.Fields(out), " ") // the columns are as wide as the rest of a day
	for _, want := range []string{"abcdef 2", "forever never", "authentication,signing", "for node 2"} {
		if !strings.Contains(out, want) {
			t.Errorf("list lacks %q:\n%s", want, out)
		}
	}
	// A complete join token names its id as well.
	if out, err = f.run(t, "token", "delete", "abcdef", strings.TrimSpace(random)); err != nil || len(f.secrets) != 0 {
		t.Errorf("delete: %q, %v, left %v", out, err, f.secrets)
	}
	var in *problem.Input
	if _, err = f.run(t, "token", "delete", "abcdef"); !errors.As(err, &in) || in.Value != "abcdef" {
		t.Errorf("delete again: %v", err)
	}
}

func TestTokenRotate(t *testing.T) {
	noConfig(t)
	f := newFakeServer(t)
	out, err := f.run(t, "token", "rotate", "--which=agent", "--new-token", "hunter2")
	if err != nil || out != "K10new\n" ||
		f.rotated != (joinapi.TokenRequest{Which: joinapi.UserNode, Password: "hunter2"}) {
		t.Errorf("rotate: %q, %v, asked for %+v", out, err, f.rotated)
	}
	if _, err = f.run(t, "token", "rotate"); err != nil || f.rotated.Which != joinapi.UserServer {
		t.Errorf("rotate: %v, asked for %+v", err, f.rotated)
	}
}

func TestMembers(t *testing.T) {
	noConfig(t)
	f := newFakeServer(t)
	out, err := f.run(t, "etcd-member", "list")
	for _, want := range []string{"one    a1   192.0.2.1   votes\n", "two    b2   192.0.2.2   catches up\n",
		"-      c3   192.0.2.3   never started\n"} {
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("list lacks %q: %v\n%s", want, err, out)
		}
	}
	if out, err = f.run(t, "etcd-member", "remove", "b2"); err != nil || out != "member b2 removed\n" ||
		f.removed.Member != "b2" {
		t.Errorf("remove: %q, %v, asked for %+v", out, err, f.removed)
	}
	if _, err = f.run(t, "etcd-member", "remove", "one"); err == nil ||
		!strings.Contains(err.Error(), "it is the only one") {
		t.Errorf("a refused removal: %v", err)
	}
}

func TestStatus(t *testing.T) {
	noConfig(t)
	f := newFakeServer(t)
	out, err := f.run(t, "status")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{f.url, "API:          ready", "Components:   1 ready, 1 not\n",
		"Nodes:        1 ready\n", "Tenants:      12\n",
		"kubelet     not ready   unknown   3          boom\n", "n1     Ready,SchedulingDisabled   192.0.2.1",
		"120m   container (primary), vm not ready: Gone\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("status lacks %q:\n%s", want, out)
		}
	}
	for _, not := range []string{"etcd ", "containerd 2.3.7"} {
		if strings.Contains(out, not) {
			t.Errorf("status says %q, of what is ready:\n%s", not, out)
		}
	}
	if out, err = f.run(t, "status", "-o", "wide"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"etcd        ready       5m", "kubelet     not ready   unknown   3          boom\n",
		"n1     container    True    90m     containerd (containerd 2.3.7): fine\n",
		"n1     vm           False   3m      vms: gone\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("status -o wide lacks %q:\n%s", want, out)
		}
	}
	f.notReady = true
	if out, err = f.run(t, "status", "-o", "json"); err != nil {
		t.Fatal(err)
	}
	var s status
	if err := json.Unmarshal([]byte(out), &s); err != nil {
		t.Fatal(err)
	}
	if s.Ready || !strings.Contains(s.NotReady, "etcd failed") || len(s.Components) != 2 ||
		len(s.Nodes) != 1 || s.Version != "v1" {
		t.Fatalf("status = %+v", s)
	}
	if r := s.Nodes[0].Runtimes; len(r) != 2 || r[0].WorkloadType != workload.Container || !r[0].Primary ||
		r[1].Ready != corev1.ConditionFalse || r[1].Reason != "Gone" || r[1].Primary {
		t.Errorf("runtimes = %+v", r)
	}
}

// TestStatusIsShort: of many nodes only those are shown that have something wrong, and of
// partitions that there are several.
func TestStatusIsShort(t *testing.T) {
	fine := []runtimeStatus{{WorkloadType: workload.Container, Primary: true, Ready: corev1.ConditionTrue}}
	s := &status{Ready: true, Partitions: []tenantadmin.Partition{{Name: "home"}}}
	for i := range 100 {
		s.Nodes = append(s.Nodes, nodeStatus{Name: fmt.Sprintf("node-%d.", i), State: nodeReady, Runtimes: fine})
	}
	s.Nodes[7].State = "NotReady"
	s.Nodes[8].State = "Ready,SchedulingDisabled"
	s.Nodes[9].Runtimes = append(s.Nodes[9].Runtimes, runtimeStatus{WorkloadType: workload.VM})
	print := func(wide bool) string {
		var out strings.Builder
		if err := writeStatus(&out, s, wide, time.Now()); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	out := print(false)
	for _, want := range []string{"99 ready, 1 not\n", "node-7.", "node-8.", "node-9.",
		"97 nodes that have nothing wrong"} {
		if !strings.Contains(out, want) {
			t.Errorf("status lacks %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "node-10.") || strings.Contains(out, "home") {
		t.Errorf("status says what nobody needs:\n%s", out)
	}
	if out := print(true); !strings.Contains(out, "node-99.") || strings.Contains(out, "not shown") {
		t.Errorf("status -o wide lacks nodes:\n%s", out)
	}
	s.Partitions = append(s.Partitions, tenantadmin.Partition{Name: "tp2"})
	if out := print(false); !strings.Contains(out, "home") || !strings.Contains(out, "tp2") {
		t.Errorf("status lacks the partitions:\n%s", out)
	}
}

func TestStatusOfAStoppedServer(t *testing.T) {
	noConfig(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := newFakeServer(t)
	writeKubeconfig(t, f.kubeconfig, "https://"+l.Addr().String(), f.ca)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"status"}, {"token", "list"}} {
		_, err := f.run(t, args...)
		var p *problem.Precondition
		if !errors.As(err, &p) || !strings.Contains(p.Fix, "a4s server") {
			t.Errorf("%v: %v, want a problem.Precondition", args, err)
		}
	}
}

func TestBrokenKubeconfig(t *testing.T) {
	noConfig(t)
	f := newFakeServer(t)
	if err := os.WriteFile(f.kubeconfig, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := f.run(t, "status")
	var in *problem.Input
	if !errors.As(err, &in) || in.Value != f.kubeconfig {
		t.Errorf("got %v, want a problem.Input for the file", err)
	}
}

func TestRandomTextIsOfTheAlphabet(t *testing.T) {
	a, b := randomText(64), randomText(64)
	if len(a) != 64 || a == b || strings.Trim(a+b, "abcdefghijklmnopqrstuvwxyz0123456789") != "" {
		t.Errorf("%q, %q", a, b)
	}
}

// TestNodeRevokeCommand says what it did of each node, and deletes only what it is told to.
func TestNodeRevokeCommand(t *testing.T) {
	noConfig(t)
	f := newFakeServer(t)
	out, err := f.run(t, "node", "revoke", "n1")
	if err != nil || !strings.HasPrefix(out, "node n1 revoked: all its certificates are dead") ||
		!strings.Contains(out, "the Node is still there") || !slices.Equal(f.revoked, []string{"n1"}) {
		t.Errorf("%q, %v, asked for %v", out, err, f.revoked)
	}
	if out, err = f.run(t, "node", "revoke", "none", "n2", "--delete"); err == nil ||
		!strings.Contains(err.Error(), "node none: ") || !strings.Contains(out, "the Node is deleted") ||
		!slices.Equal(f.revoked, []string{"n1", "n2", "deleted n2"}) {
		t.Errorf("%q, %v, asked for %v", out, err, f.revoked)
	}
}
