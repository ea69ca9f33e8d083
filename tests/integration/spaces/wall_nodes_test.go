package spaces_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sirupsen/logrus"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/agent/cluster/join"
	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/tests/hollownode"
	"github.com/a4s-io/a4s/tests/nstest"
)

// machine is a node by its credential.
type machine struct {
	name   string
	config *rest.Config
	client kubernetes.Interface
}

// registered is a node with a credential, which registers itself as a kubelet does and gets a
// range of pods.
func (p *plane) registered(t *testing.T, name, address string) *machine {
	t.Helper()
	m := p.credential(t, name)
	n := hollownode.New(name, nil)
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address},
		{Type: corev1.NodeHostName, Address: name}}
	if _, err := m.client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the range of "+name, func(ctx context.Context) (bool, error) {
		got, err := p.admin.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		return err == nil && got.Spec.PodCIDR != "", err
	})
	return m
}

func (p *plane) credential(t *testing.T, name string) *machine {
	t.Helper()
	m := &machine{name: name, config: p.user(t, "system:node:"+name, []string{"system:nodes"}, nil)}
	var err error
	if m.client, err = kubernetes.NewForConfig(m.config); err != nil {
		t.Fatal(err)
	}
	return m
}

// patch is a merge patch of the Node, or of its status.
func (m *machine) patch(t *testing.T, body string, sub ...string) error {
	t.Helper()
	_, err := m.client.CoreV1().Nodes().Patch(t.Context(), m.name, types.MergePatchType, []byte(body),
		metav1.PatchOptions{}, sub...)
	return err
}

// node is the Node as the administrator sees it.
func (p *plane) node(t *testing.T, name string) *corev1.Node {
	t.Helper()
	n, err := p.admin.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// second is an address in the range of a node.
func second(n *corev1.Node, last int) string {
	return strings.TrimSuffix(n.Spec.PodCIDR, "0/24") + fmt.Sprint(last)
}

// TestWallW3PodRangesOfNodes: a node's credential gets no range of pods but the one that the
// server gives, and draws no traffic of others by what it says of itself; nobody stores a
// range that the controllers could not start with.
func TestWallW3PodRangesOfNodes(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	ctx := t.Context()
	victim, thief := p.registered(t, "victim", "192.0.2.1"), p.registered(t, "thief", "192.0.2.2")
	annotate := func(m *machine, key, value string) error {
		return m.patch(t, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value), "status")
	}
	const flannel = "flannel.alpha.coreos.com/"
	// What an honest one says, by the words of kubelet and flannel.
	for key, value := range map[string]string{
		flannel + "kube-subnet-manager": "true", flannel + "backend-type": "vxlan", flannel + "public-ip": "192.0.2.1",
		flannel + "backend-data":                                 `{"VNI":1,"VtepMAC":"02:00:00:00:00:01"}`,
		"volumes.kubernetes.io/controller-managed-attach-detach": "true", "a4s.io/primary-runtime": "container",
	} {
		if err := annotate(victim, key, value); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if err := victim.patch(t, `{"status":{"images":[{"names":["a"],"sizeBytes":1}],"volumesInUse":["v"]}}`,
		"status"); err != nil {
		t.Error(err)
	}
	own := p.node(t, "victim").Spec.PodCIDR

	t.Run("a Node made again", func(t *testing.T) {
		late := p.credential(t, "late")
		for _, cidr := range []string{second(p.node(t, "victim"), 5) + "/32", own, "10.42.200.0/24",
			"198.51.100.0/24"} {
			n := hollownode.New("late", nil)
			n.Spec.PodCIDR, n.Spec.PodCIDRs = cidr, []string{cidr}
			if _, err := late.client.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); !refusal(err) {
				t.Errorf("%s: %v", cidr, err)
			}
		}
	})
	t.Run("what a node changes of itself", func(t *testing.T) {
		for what, body := range map[string]string{
			"range":     `{"spec":{"podCIDR":"10.42.200.0/24","podCIDRs":["10.42.200.0/24"]}}`,
			"no range":  `{"spec":{"podCIDR":null,"podCIDRs":null}}`,
			"finalizer": `{"metadata":{"finalizers":["example.com/stay"]}}`,
			"owner": `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":` +
				`"victim","uid":"x"}]}}`,
			"tunnel of another": `{"metadata":{"annotations":{"flannel.alpha.coreos.com/backend-data":` +
				`"{\"VtepMAC\":\"02:00:00:00:00:01\"}"}}}`,
			"address of another": `{"metadata":{"annotations":{"flannel.alpha.coreos.com/public-ip":"192.0.2.1"}}}`,
			"address of a host": `{"metadata":{"annotations":{"flannel.alpha.coreos.com/public-ip":` +
				`"198.51.100.9"}}}`,
			"address in its place": `{"metadata":{"annotations":{"flannel.alpha.coreos.com/public-ip-overwrite":` +
				`"192.0.2.2"}}}`,
			"not by flannel": `{"metadata":{"annotations":{"flannel.alpha.coreos.com/kube-subnet-manager":` +
				`"false"}}}`,
			"another backend": `{"metadata":{"annotations":{"flannel.alpha.coreos.com/backend-type":` +
				`"extension"}}}`,
			"any annotation": `{"metadata":{"annotations":{"example.com/x":"y"}}}`,
			"copy's label":   `{"metadata":{"labels":{"a4s.io/resource-partition":"x"}}}`,
			"taint":          `{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}`,
		} {
			for _, sub := range []string{"", "status"} {
				if sub == "status" && strings.HasPrefix(body, `{"spec"`) {
					continue // the API ignores it
				}
				var subs []string
				if sub != "" {
					subs = []string{sub}
				}
				if err := thief.patch(t, body, subs...); !refusal(err) {
					t.Errorf("%s, %q: %v", what, sub, err)
				}
			}
		}
		if err := thief.patch(t, `{"status":{"volumesAttached":[{"name":"v","devicePath":"x"}]}}`,
			"status"); !refusal(err) {
			t.Errorf("attached volumes: %v", err)
		}
		if err := thief.client.CoreV1().Nodes().Delete(ctx, "thief",
			metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("it deletes itself: %v", err)
		}
	})
	t.Run("what was cordoned stays so", func(t *testing.T) {
		if err := thief.patch(t, `{"spec":{"unschedulable":true}}`); err != nil {
			t.Errorf("on: %v", err)
		}
		if err := thief.patch(t, `{"spec":{"unschedulable":null}}`); !refusal(err) {
			t.Errorf("off: %v", err)
		}
	})
	t.Run("an administrator's range", func(t *testing.T) {
		make := func(name, cidr string) error {
			n := hollownode.New(name, nil)
			n.Spec.PodCIDR, n.Spec.PodCIDRs = cidr, []string{cidr}
			_, err := p.admin.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{})
			return err
		}
		for _, cidr := range []string{own, second(p.node(t, "victim"), 5) + "/32", "198.51.100.0/24", "10.42.0.0/16",
			"10.42.200.0/25"} {
			if err := make("made", cidr); !apierrors.IsInvalid(err) {
				t.Errorf("%s: %v", cidr, err)
			}
		}
		if err := make("made", "10.42.200.0/24"); err != nil {
			t.Errorf("a free one: %v", err)
		}
		if err := make("second", "10.42.200.0/24"); !apierrors.IsInvalid(err) {
			t.Errorf("one that was just taken: %v", err)
		}
		if err := p.admin.CoreV1().Nodes().Delete(ctx, "made", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the range of a deleted Node can be had", func(context.Context) (bool, error) {
			return make("second", "10.42.200.0/24") == nil, nil
		})
	})
	if got := p.node(t, "victim").Spec.PodCIDR; got != own {
		t.Errorf("the range of the other node is %s, was %s", got, own)
	}
}

// refusal is that of the guard, or of upstream's.
func refusal(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) }

// TestWallW4AddressesOfPods: a node says addresses of its own range only of its pods.
func TestWallW4AddressesOfPods(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	ctx := t.Context()
	victim, thief := p.registered(t, "victim", "192.0.2.1"), p.registered(t, "thief", "192.0.2.2")
	t1, t2 := p.tenant(t, "t1"), p.tenant(t, "t2")
	runs := func(s *space, name, node string) string {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		eventually(t, "a pod of "+s.name, func(ctx context.Context) (bool, error) {
			_, err := s.client.CoreV1().Pods("default").Create(ctx, pod, metav1.CreateOptions{})
			return err == nil || apierrors.IsAlreadyExists(err), nil
		})
		return "default." + s.name
	}
	says := func(m *machine, namespace, name, status string) error {
		_, err := m.client.CoreV1().Pods(namespace).Patch(ctx, name, types.StrategicMergePatchType,
			[]byte(`{"status":`+status+`}`), metav1.PatchOptions{}, "status")
		return err
	}
	at := func(ip string) string {
		return `{"phase":"Running","podIP":"` + ip + `","podIPs":[{"ip":"` + ip + `"}]}`
	}
	n2, n1 := runs(t2, "web", "victim"), runs(t1, "own", "thief")
	its, mine := second(p.node(t, "victim"), 7), second(p.node(t, "thief"), 7)
	eventually(t, "a pod gets an address of its node's range", func(context.Context) (bool, error) {
		return says(victim, n2, "web", at(its)) == nil, nil
	})
	for _, ip := range []string{its, second(p.node(t, "victim"), 8), "192.0.2.1", "198.51.100.1", "10.43.0.1",
		"127.0.0.1"} {
		if err := says(thief, n1, "own", at(ip)); !refusal(err) || !strings.Contains(err.Error(), "range") {
			t.Errorf("the address %s: %v", ip, err)
		}
	}
	for what, status := range map[string]string{
		"address of another host": `{"hostIP":"192.0.2.1","hostIPs":[{"ip":"192.0.2.1"}]}`,
	} {
		if err := says(thief, n1, "own", status); !refusal(err) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := says(thief, n2, "web", at(mine)); !refusal(err) {
		t.Errorf("a pod of another node: %v", err)
	}
	for _, body := range []string{`{"metadata":{"finalizers":["example.com/x"]}}`,
		`{"metadata":{"annotations":{"a4s.io/shared":"true"}}}`} {
		if _, err := thief.client.CoreV1().Pods(n1).Patch(ctx, "own", types.MergePatchType, []byte(body),
			metav1.PatchOptions{}, "status"); !refusal(err) {
			t.Errorf("%s: %v", body, err)
		}
	}
	for what, status := range map[string]string{"an address of its own": at(mine),
		"its own address": `{"hostIP":"192.0.2.2","hostIPs":[{"ip":"192.0.2.2"}]}`} {
		may(t, what, func(context.Context) error { return says(thief, n1, "own", status) })
	}
	// A node without a range has pods in its own network only.
	if _, err := p.admin.CoreV1().Pods(n2).Get(ctx, "web", metav1.GetOptions{}); err != nil {
		t.Fatal(err)
	}
	web, err := p.admin.CoreV1().Pods(n2).Get(ctx, "web", metav1.GetOptions{})
	if err != nil || web.Status.PodIP != its {
		t.Errorf("the pod of the other tenant has %s, %v", web.Status.PodIP, err)
	}
}

// TestWallW5AddressesOfNodes: a node says its own addresses only.
func TestWallW5AddressesOfNodes(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	p.registered(t, "victim", "192.0.2.1")
	thief := p.registered(t, "thief", "192.0.2.2")
	addresses := func() []string {
		var out []string
		for _, a := range p.node(t, "thief").Status.Addresses {
			out = append(out, a.Address)
		}
		return out
	}
	for _, address := range []string{
		`{"type":"InternalIP","address":"192.0.2.1"}`, `{"type":"ExternalIP","address":"192.0.2.1"}`,
		`{"type":"ExternalIP","address":"198.51.100.7"}`, `{"type":"InternalIP","address":"10.42.1.9"}`,
		`{"type":"Hostname","address":"victim"}`, `{"type":"InternalDNS","address":"kubernetes.default.svc"}`,
		`{"type":"ExternalDNS","address":"example.com"}`, `{"type":"Other","address":"192.0.2.2"}`,
		`{"type":"InternalIP","address":"::ffff:192.0.2.1"}`,
	} {
		// It is left out, and the rest of what the node says counts.
		err := thief.patch(t, `{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.2"},`+address+
			`],"volumesInUse":["`+fmt.Sprint(len(address))+`"]}}`, "status")
		if err != nil {
			t.Errorf("%s: %v", address, err)
		}
		if got := addresses(); !slices.Equal(got, []string{"192.0.2.2"}) {
			t.Errorf("%s: the node has %v", address, got)
		}
	}
	if err := thief.patch(t, `{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.2"},`+
		`{"type":"Hostname","address":"thief"}]}}`, "status"); err != nil || len(addresses()) != 2 {
		t.Errorf("its own: %v, %v", addresses(), err)
	}
	code, body := do(t, thief.config, http.MethodPatch, "/api/v1/nodes/thief/status",
		`{"status":{"addresses":[{"type":"InternalIP","address":"198.51.100.7"}]}}`,
		[]string{"Content-Type: application/merge-patch+json"})
	if code != http.StatusOK || strings.Contains(body, "198.51.100.7") {
		t.Errorf("%d %s", code, body)
	}
}

// joined is a node that joined as an agent does, with its Node.
func (p *plane) joined(t *testing.T, o join.Options) *machine {
	t.Helper()
	res, err := join.Join(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	// What a thief copies: the files change when the machine joins again.
	m := &machine{name: o.NodeName, config: &rest.Config{Host: p.URL, QPS: -1, TLSClientConfig: rest.TLSClientConfig{
		CAFile: res.ServerCA, CertData: read(t, res.ClientCert), KeyData: read(t, res.ClientKey)}}}
	if m.client, err = kubernetes.NewForConfig(m.config); err != nil {
		t.Fatal(err)
	}
	return m
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (p *plane) joins(t *testing.T, name, address string) join.Options {
	t.Helper()
	dir := t.TempDir()
	log := logrus.New()
	log.SetOutput(io.Discard)
	return join.Options{ServerURL: p.URL, Token: p.Token, NodeName: name, NodeIPs: []string{address},
		FurtherIPs: []string{}, Dir: filepath.Join(dir, "agent"), NodePasswordFile: filepath.Join(dir, "password"),
		Log: logrus.NewEntry(log)}
}

// registers makes the Node of a node that joined.
func (m *machine) registers(t *testing.T, address string) error {
	t.Helper()
	n := hollownode.New(m.name, nil)
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}}
	_, err := m.client.CoreV1().Nodes().Create(t.Context(), n, metav1.CreateOptions{})
	return err
}

// told is what a node is being told when its certificate dies.
func (m *machine) told(t *testing.T) (ended func() bool) {
	t.Helper()
	w, err := m.client.CoreV1().Nodes().Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" +
		m.name})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	client, err := rest.HTTPClientFor(m.config)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Get(m.config.Host + joinapi.PathPacketFilter)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("the stream of addresses: %+v, %v", resp, err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	var over atomic.Int32
	go func() {
		for range w.ResultChan() {
		}
		over.Add(1)
	}()
	go func() {
		_, _ = io.Copy(io.Discard, resp.Body)
		over.Add(1)
	}()
	return func() bool { return over.Load() == 2 }
}

// dead fails unless the certificate is good for nothing.
func (m *machine) dead(t *testing.T) {
	t.Helper()
	for _, path := range []string{"/api/v1/nodes/" + m.name, "/api/v1/services", joinapi.PathConfig,
		joinapi.PathPacketFilter, "/version"} {
		if code, body := get(t, m.config, path); code != http.StatusUnauthorized || !strings.Contains(body,
			"not good any more") {
			t.Errorf("%s of %s: %d %s", path, m.name, code, body)
		}
	}
	if err := m.registers(t, "192.0.2.9"); !apierrors.IsUnauthorized(err) {
		t.Errorf("%s makes its Node anew: %v", m.name, err)
	}
}

// TestDeletedNodesCertificateIsDead: with a Node all certificates of its node go, at once, by
// whatever request, and what the node was being told ends. With the token it comes back.
func TestDeletedNodesCertificateIsDead(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	ctx := t.Context()
	nodes := p.admin.CoreV1().Nodes()
	for name, remove := range map[string]func() error{
		"one": func() error { return nodes.Delete(ctx, "one", metav1.DeleteOptions{}) },
		"all": func() error {
			return nodes.DeleteCollection(ctx, metav1.DeleteOptions{},
				metav1.ListOptions{LabelSelector: "kubernetes.io/hostname=all"})
		},
	} {
		o := p.joins(t, name, "192.0.2.5")
		m := p.joined(t, o)
		if err := m.registers(t, "192.0.2.5"); err != nil {
			t.Fatal(err)
		}
		ended := m.told(t)
		if err := nodes.Delete(ctx, name, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}); err != nil {
			t.Error(err)
		}
		if _, err := m.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{}); err != nil || ended() {
			t.Errorf("after a deletion that was only tried: %v", err)
		}
		if err := remove(); err != nil {
			t.Fatal(err)
		}
		m.dead(t)
		eventually(t, "what the node is being told ends", func(context.Context) (bool, error) { return ended(), nil })
		// Its agent, which has the token, starts again.
		back := p.joined(t, o)
		if err := back.registers(t, "192.0.2.5"); err != nil {
			t.Errorf("%s with the token: %v", name, err)
		}
		m.dead(t)
	}
	// One that never joined, by a certificate of the CA alone.
	made := p.registered(t, "made", "192.0.2.7")
	if err := nodes.Delete(ctx, "made", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	made.dead(t)
}

// TestNodeRevoke: a revoked node has its Node, and no certificate, by a request of its kubelet
// neither; with the token it goes on.
func TestNodeRevoke(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	ctx := t.Context()
	o := p.joins(t, "n1", "192.0.2.5")
	m := p.joined(t, o)
	if err := m.registers(t, "192.0.2.5"); err != nil {
		t.Fatal(err)
	}
	renewed := m.renews(t, p)
	if _, err := renewed.client.CoreV1().Nodes().Get(ctx, "n1", metav1.GetOptions{}); err != nil {
		t.Errorf("with a certificate that the kubelet asked for: %v", err)
	}
	ended := m.told(t)
	if code, body := do(t, p.Admin, http.MethodPost, joinapi.PathRevokeNode, `{"nodeName":"n1"}`,
		nil); code != http.StatusOK ||
		!strings.Contains(body, `"joined":true,"registered":true`) {
		t.Errorf("%d %s", code, body)
	}
	m.dead(t)
	renewed.dead(t)
	eventually(t, "what the node is being told ends", func(context.Context) (bool, error) { return ended(), nil })
	uid := p.node(t, "n1").UID
	without := o
	without.Token = ""
	if _, err := join.Join(ctx, without); err == nil || !strings.Contains(err.Error(), "not good any more") {
		t.Errorf("it joins without the token: %v", err)
	}
	back := p.joined(t, o)
	if err := back.patch(t, `{"status":{"volumesInUse":["v"]}}`, "status"); err != nil {
		t.Errorf("with the token: %v", err)
	}
	if p.node(t, "n1").UID != uid {
		t.Error("the Node is another one")
	}
	m.dead(t)
}

// renews asks for a certificate as a kubelet does, which somebody approves: nobody does by default.
func (m *machine) renews(t *testing.T, p *plane) *machine {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{
		CommonName: "system:node:" + m.name, Organization: []string{"system:nodes"}}}, key)
	if err != nil {
		t.Fatal(err)
	}
	requests := m.client.CertificatesV1().CertificateSigningRequests()
	csr, err := requests.Create(t.Context(), &certificatesv1.CertificateSigningRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "renewed-"},
		Spec: certificatesv1.CertificateSigningRequestSpec{
			SignerName: certificatesv1.KubeAPIServerClientKubeletSignerName,
			Request:    pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature,
				certificatesv1.UsageClientAuth}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "Test"})
	if csr, err = p.admin.CertificatesV1().CertificateSigningRequests().UpdateApproval(t.Context(), csr.Name, csr,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the certificate", func(ctx context.Context) (bool, error) {
		csr, err = requests.Get(ctx, csr.Name, metav1.GetOptions{})
		return err == nil && len(csr.Status.Certificate) > 0, err
	})
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	out := &machine{name: m.name, config: rest.CopyConfig(m.config)}
	out.config.CertData = csr.Status.Certificate
	out.config.KeyData = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})
	if out.client, err = kubernetes.NewForConfig(out.config); err != nil {
		t.Fatal(err)
	}
	return out
}
