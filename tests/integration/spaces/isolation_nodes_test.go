package spaces_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/tests/nstest"
)

// nodeRequests are what a stolen credential of a node sends in every run of the tests.
// A4S_ISOLATION_NODE_REQUESTS says another number.
const nodeRequests = 2000

// lookEvery is after how many requests everything is looked at.
const lookEvery = 100

// nodeSecret is in a Secret that no pod of the thief's node refers to.
const nodeSecret = "zqothersecretzq"

// thief makes up requests of a node.
type thief struct {
	rand  *rand.Rand
	words []string // that stand in fields
}

func chosen[T any](g *thief, from ...T) T { return from[g.rand.IntN(len(from))] }

// TestIsolationOfNodes: whatever a node's stolen credential writes, of everything that upstream
// lets nodes write, by random fields, changes nothing of other nodes, of the pods on them and
// of their tenants, draws none of their traffic, and reads none of their secrets.
func TestIsolationOfNodes(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	total, seed := nodeRequests, uint64(time.Now().UnixNano())
	for name, into := range map[string]func(uint64){
		"A4S_ISOLATION_NODE_REQUESTS": func(n uint64) { total = int(n) },
		"A4S_ISOLATION_SEED":          func(n uint64) { seed = n },
	} {
		if text := os.Getenv(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 63)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			into(n)
		}
	}
	t.Logf("%d requests, A4S_ISOLATION_SEED=%d", total, seed)
	p := start(t, nil)
	w := newNodesWorld(t, p)
	g := &thief{rand: rand.New(rand.NewPCG(seed, 1)), words: w.words}
	codes := map[int]int{}
	for i := range total {
		r := g.request()
		code, body := do(t, w.thief.config, r.method, r.path, r.body, []string{"Content-Type: " + r.kind})
		if codes[code]++; code >= http.StatusInternalServerError && codes[code] == 1 {
			t.Logf("request %d, %s %s %s: %d %s", i, r.method, r.path, r.body, code, body)
		}
		if strings.Contains(body, nodeSecret) {
			t.Fatalf("request %d, %s %s, reads the secret of another: %s", i, r.method, r.path, body)
		}
		if code < 300 && r.foreign && r.method != http.MethodGet {
			t.Errorf("request %d, %s %s %s, is taken: %d %s", i, r.method, r.path, r.body, code, body)
		}
		if i%lookEvery == lookEvery-1 || i == total-1 {
			if found := w.look(t); found != "" {
				t.Fatalf("after request %d, %s %s %s: %s", i, r.method, r.path, r.body, found)
			}
		}
	}
	t.Logf("the answers were %v", codes)
	if total >= nodeRequests && (codes[http.StatusOK]+codes[http.StatusCreated] < total/50 ||
		codes[http.StatusForbidden] == 0) {
		t.Errorf("the generator tries nothing: %v", codes)
	}
}

// nodesWorld is two nodes with a pod of a tenant each.
type nodesWorld struct {
	p      *plane
	thief  *machine
	victim *corev1.Node
	pods   map[string]*corev1.Pod // of the victim's node, by namespace
	own    netip.Prefix           // the range of the thief's
	words  []string
}

func newNodesWorld(t *testing.T, p *plane) *nodesWorld {
	t.Helper()
	ctx := t.Context()
	w := &nodesWorld{p: p, pods: map[string]*corev1.Pod{}}
	victim := p.registered(t, "victim", "192.0.2.1")
	w.thief = p.registered(t, "thief", "192.0.2.2")
	w.own = netip.MustParsePrefix(p.node(t, "thief").Spec.PodCIDR)
	its := second(p.node(t, "victim"), 7)
	if err := victim.patch(t, `{"metadata":{"annotations":{"flannel.alpha.coreos.com/public-ip":"192.0.2.1",`+
		`"flannel.alpha.coreos.com/backend-data":"{\"VNI\":1,\"VtepMAC\":\"02:00:00:00:00:01\"}"}}}`,
		"status"); err != nil {
		t.Fatal(err)
	}
	for tenant, node := range map[string]string{"t1": "thief", "t2": "victim"} {
		s := p.tenant(t, tenant)
		if _, err := s.client.CoreV1().Secrets("default").Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Name: "private"}, StringData: map[string]string{"key": nodeSecret},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.CoreV1().Services("default").Create(ctx, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Name: "web"},
			Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"},
				Ports: []corev1.ServicePort{{Port: 80}}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.client.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"app": "web"}},
			Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	p.runs(t, &space{name: "t2"}, "default", "web", its)
	for _, name := range []string{"victim", "thief"} {
		w.words = append(w.words, name, p.node(t, name).Spec.PodCIDR, string(p.node(t, name).UID))
	}
	w.words = append(w.words, its, second(p.node(t, "thief"), 9), "192.0.2.1", "192.0.2.2", "198.51.100.3",
		"10.43.0.1",
		"default.t2", "web", "true", "false", "", "Running", "Ready", "InternalIP", "ExternalIP", "Hostname",
		"NoSchedule",
		"flannel.alpha.coreos.com/public-ip", "flannel.alpha.coreos.com/backend-data", "a4s.io/node-life",
		"a4s.io/resource-partition", "a4s.io/shared", "kubernetes.io/config.mirror", `{"VtepMAC":"02:00:00:00:00:01"}`,
		"10.42.200.0/24", "v1", "Node", "Pod", "app")
	eventually(t, "the endpoints of the other tenant", func(ctx context.Context) (bool, error) {
		found, err := p.admin.DiscoveryV1().EndpointSlices("default.t2").List(ctx, metav1.ListOptions{})
		return err == nil && strings.Contains(fmt.Sprint(found), its), err
	})
	w.victim = p.node(t, "victim")
	pods, err := p.admin.CoreV1().Pods("default.t2").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		w.pods[pods.Items[i].Namespace] = &pods.Items[i]
	}
	return w
}

// look returns what is not as it should be.
func (w *nodesWorld) look(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	nodes, err := w.p.admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes.Items {
		switch n.Name {
		case "victim":
			if n.UID != w.victim.UID || !equality.Semantic.DeepEqual(n.Spec.PodCIDRs, w.victim.Spec.PodCIDRs) ||
				!equality.Semantic.DeepEqual(n.Annotations, w.victim.Annotations) ||
				!equality.Semantic.DeepEqual(n.Status.Addresses, w.victim.Status.Addresses) {
				return fmt.Sprintf("the other node is %+v", n)
			}
		case "thief":
			if n.Spec.PodCIDR != w.own.String() || len(n.Spec.PodCIDRs) != 1 ||
				len(n.Finalizers)+len(n.OwnerReferences) > 0 ||
				n.Annotations["flannel.alpha.coreos.com/backend-data"] == `{"VtepMAC":"02:00:00:00:00:01"}` {
				return fmt.Sprintf("the node is %+v", n)
			}
			for _, a := range append(n.Status.Addresses,
				corev1.NodeAddress{Address: n.Annotations["flannel.alpha.coreos.com/public-ip"]}) {
				if !slices.Contains([]string{"", "192.0.2.2", "thief"}, a.Address) {
					return "the node says the address " + a.Address
				}
			}
		default:
			return "there is a node " + n.Name
		}
	}
	pods, err := w.p.admin.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if was := w.pods[pod.Namespace]; was != nil {
			if pod.UID != was.UID || !equality.Semantic.DeepEqual(pod.Status.PodIPs, was.Status.PodIPs) ||
				!equality.Semantic.DeepEqual(pod.Spec, was.Spec) || !equality.Semantic.DeepEqual(pod.Labels,
				was.Labels) ||
				pod.DeletionTimestamp != nil {
				return fmt.Sprintf("the pod of the other tenant is %+v", pod)
			}
			found[pod.Namespace] = true
			continue
		}
		if pod.Spec.NodeName != "thief" {
			continue
		}
		for _, ip := range pod.Status.PodIPs {
			addr, err := netip.ParseAddr(ip.IP)
			if own := err == nil && w.own.Contains(addr); !own && !(pod.Spec.HostNetwork && ip.IP == "192.0.2.2") {
				return fmt.Sprintf("pod %s/%s says the address %s", pod.Namespace, pod.Name, ip.IP)
			}
		}
		for _, ip := range pod.Status.HostIPs {
			if ip.IP != "192.0.2.2" {
				return fmt.Sprintf("pod %s/%s says the host %s", pod.Namespace, pod.Name, ip.IP)
			}
		}
		if len(pod.Finalizers) > 0 || pod.Annotations["a4s.io/shared"] != "" && pod.Namespace == "default.t1" {
			return fmt.Sprintf("the pod %s/%s is %+v", pod.Namespace, pod.Name, pod.ObjectMeta)
		}
	}
	if len(found) != len(w.pods) {
		return "the pod of the other tenant is gone"
	}
	slices, err := w.p.admin.DiscoveryV1().EndpointSlices("default.t2").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range slices.Items {
		for _, e := range s.Endpoints {
			for _, a := range e.Addresses {
				if a != w.pods["default.t2"].Status.PodIP {
					return "the Service of the other tenant has the endpoint " + a
				}
			}
		}
	}
	return ""
}

// nodeRequest is one request; foreign ones are about what is not the thief's.
type nodeRequest struct {
	method, path, kind, body string
	foreign                  bool
}

// request makes up one.
func (g *thief) request() nodeRequest {
	node := chosen(g, "thief", "thief", "thief", "victim", "another")
	tenant := chosen(g, "t1", "t1", "t2")
	pods := "/api/v1/namespaces/default." + tenant + "/pods"
	r := nodeRequest{kind: "application/json", foreign: tenant == "t2"}
	ofNode := func() { r.foreign = node != "thief" }
	write := func(object any, status bool) {
		r.method, r.kind = http.MethodPatch, chosen(g, "application/merge-patch+json",
			"application/strategic-merge-patch+json")
		made, _ := g.value(reflect.TypeOf(object), 0).(map[string]any)
		if g.rand.IntN(4) > 0 { // one part alone, so that the rest does not have it refused
			part := chosen(g, "metadata", "spec", "status")
			if status && g.rand.IntN(2) == 0 {
				part = "status"
			}
			one, _ := made[part].(map[string]any)
			if one == nil {
				one = map[string]any{}
			}
			for key := range one {
				if len(one) > 1 && g.rand.IntN(3) > 0 {
					delete(one, key)
				}
			}
			made = map[string]any{part: one}
		}
		data, err := json.Marshal(made)
		if err != nil {
			panic(err)
		}
		r.body = string(data)
	}
	switch g.rand.IntN(14) {
	case 0, 1, 2:
		ofNode()
		write(corev1.Node{}, true)
		r.path = "/api/v1/nodes/" + node + chosen(g, "", "/status", "/status")
	case 3, 4, 5:
		write(corev1.Pod{}, true)
		r.path = pods + "/web/status"
	case 6:
		ofNode()
		r.method, r.path = http.MethodPost, "/api/v1/nodes"
		r.body = fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"podCIDR":%q,"podCIDRs":[%[2]q]}}`, node, chosen(g,
			g.words...))
	case 7:
		write(corev1.Pod{}, false)
		r.path = pods + "/web"
	case 8:
		r.method, r.path, r.foreign = http.MethodPost, pods, true // a node makes no pods of tenants
		r.body = fmt.Sprintf(`{"metadata":{"name":"m%d","labels":{"app":"web"},"annotations":{"kubernetes.io/`+
			`config.mirror":"x"},`+
			`"ownerReferences":[{"apiVersion":"v1","kind":"Node","name":"thief","uid":%q,"controller":true}]},`+
			`"spec":{"nodeName":%q,`+
			`"containers":[{"name":"c","image":"i"}]}}`, g.rand.IntN(5), chosen(g, g.words...), chosen(g, "thief",
			"victim"))
	case 9:
		r.method, r.path = chosen(g, http.MethodPost, http.MethodDelete), pods+"/web"
		r.body = `{}`
		if r.method == http.MethodPost {
			r.path += chosen(g, "/eviction", "/binding", "/exec", "/ephemeralcontainers")
		}
		r.foreign, r.path = true, strings.Replace(r.path, "default.t1", "default.t2", 1)
	case 10:
		ofNode()
		r.method = chosen(g, http.MethodPost, http.MethodPut, http.MethodDelete)
		r.path = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
		if r.method != http.MethodPost {
			r.path += "/" + node
		}
		r.body = fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"holderIdentity":%q,"leaseDurationSeconds":40}}`, node,
			node)
	case 11:
		ofNode()
		r.method = chosen(g, http.MethodPost, http.MethodDelete)
		r.path = chosen(g, "/apis/storage.k8s.io/v1/csinodes", "/apis/resource.k8s.io/v1/resourceslices",
			"/api/v1/nodes")
		if r.method == http.MethodDelete {
			r.path += "/" + node
			r.foreign = r.foreign || strings.HasPrefix(r.path, "/api/v1/nodes")
		}
		r.body = fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"nodeName":%[1]q,"driver":"d","drivers":[],`+
			`"pool":{"name":"p","resourceSliceCount":1}}}`, node)
	case 12:
		r.method, r.path = http.MethodPost, "/api/v1/namespaces/default.t2/serviceaccounts/default/token"
		r.foreign = true
		r.body = fmt.Sprintf(`{"spec":{"boundObjectRef":{"apiVersion":"v1","kind":%q,"name":"web","uid":%q}}}`,
			chosen(g, "Pod", "Node", "Secret"), chosen(g, g.words...))
	default:
		r.method, r.foreign = chosen(g, http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodPost,
			http.MethodDelete), true
		r.kind = chosen(g, "application/json", "application/merge-patch+json")
		r.path = chosen(g, "/api/v1/namespaces/default.t2/secrets", "/api/v1/namespaces/default.t2/secrets/private",
			"/api/v1/namespaces/default.t1/secrets/private", "/api/v1/secrets",
			"/api/v1/namespaces/kube-system/secrets/thief.node.a4s",
			"/api/v1/namespaces/kube-system/secrets/victim.node.a4s", "/api/v1/namespaces/default.t2/services/web",
			"/api/v1/namespaces/default.t2/persistentvolumeclaims/x/status",
			"/apis/discovery.k8s.io/v1/namespaces/default.t2/endpointslices",
			"/apis/storage.k8s.io/v1/volumeattachments", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
			"/apis/certificates.k8s.io/v1/certificatesigningrequests/x/approval", "/api/v1/nodes/victim/proxy/pods",
			"/tenants/t2/api/v1/namespaces/default/secrets", "/v1-a4s/status", "/v1-a4s/token", "/v1-a4s/node/revoke",
			"/v1-a4s/localvolumes/done", "/v1-a4s/server")
		r.body = chosen(g, `{}`, `{"nodeName":"victim"}`, `{"metadata":{"name":"thief.node.a4s"},"data":`+
			`{"addresses":"MTkyLjAuMi4x"}}`,
			`{"status":{"phase":"Bound"}}`)
	}
	if r.method == http.MethodGet {
		r.body = ""
	}
	return r
}

// value makes up one of a type of the API: a part of its fields, from the words.
func (g *thief) value(of reflect.Type, depth int) any {
	switch of {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime]():
		return "2026-11-27T00:00:00Z"
	}
	switch of.Kind() {
	case reflect.Pointer:
		return g.value(of.Elem(), depth)
	case reflect.String:
		return chosen(g, g.words...)
	case reflect.Bool:
		return g.rand.IntN(2) == 0
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint32, reflect.Uint64:
		return g.rand.IntN(3)
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return ""
		}
		out := []any{}
		for range g.rand.IntN(3) {
			out = append(out, g.value(of.Elem(), depth+1))
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for range g.rand.IntN(3) {
			if of.Elem().Kind() == reflect.String {
				out[chosen(g, g.words...)] = chosen(g, g.words...)
			} else {
				out[chosen(g, "cpu", "memory", "pods")] = "1"
			}
		}
		return out
	case reflect.Struct:
		out := map[string]any{}
		for i := range of.NumField() {
			field := of.Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || name == "-" || depth > 4 || depth > 0 && g.rand.IntN(3) > 0 {
				continue
			}
			out[name] = g.value(field.Type, depth+1)
		}
		return out
	}
	return nil
}
