package spaces_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
)

// TestWall is what administrators of one tenant tried by their webhooks and
// policies, which were asked about writes of the system. The rule is: what a
// tenant's admission changes is a tenant's write.
func TestWall(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	for _, c := range []struct {
		name string
		test func(*testing.T, *plane, *space)
	}{
		{"V1 a policy moves a provisioned volume to the root of the node", testWallV1},
		{"V4 a policy gives a pod the address of another tenant's", testWallV4},
		{"V5 a policy gives a Service the addresses of others", testWallV5},
		{"V6 a policy raises the priority of pods", testWallV6},
		{"V8 a webhook never answers", testWallV8},
		{"V15 a policy refuses what the system deletes", testWallV15},
	} {
		t.Run(c.name, func(t *testing.T) {
			name, _, _ := strings.Cut(strings.ToLower(c.name), " ")
			c.test(t, p, p.bareTenant(t, name))
		})
	}
}

// changes makes a policy that changes what is written to resources, by whomever.
func (s *space) changes(t *testing.T, resources, expression string) {
	t.Helper()
	group, resource, _ := strings.Cut(resources, ":")
	post(t, s.config, registration+"mutatingadmissionpolicies",
		`{"metadata":{"name":"m"},"spec":{"failurePolicy":"Fail","reinvocationPolicy":"IfNeeded",
		"matchConstraints":{"resourceRules":[{"apiGroups":["`+group+`"],"apiVersions":["*"],"operations":["CREATE",`+
			`"UPDATE"],"resources":["`+resource+`"]}]},
		"mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"`+expression+`"}}]}}`)
	post(t, s.config, registration+"mutatingadmissionpolicybindings",
		`{"metadata":{"name":"m"},"spec":{"policyName":"m"}}`)
}

// marker says that the configurations of a space that were made before are
// known: a policy made after them is.
func (s *space) marker(t *testing.T) {
	t.Helper()
	post(t, s.config, registration+"validatingadmissionpolicies", `{"metadata":{"name":"marker"},"spec":{`+
		configMapConstraints+`,"validations":[{"expression":"object.metadata.name != 'marker'"}]}}`)
	post(t, s.config, registration+"validatingadmissionpolicybindings",
		`{"metadata":{"name":"marker"},"spec":{"policyName":"marker","validationActions":["Deny"]}}`)
	eventually(t, "the policies of the space", func(ctx context.Context) (bool, error) {
		_, err := s.client.CoreV1().ConfigMaps("default").Create(ctx, configMap("marker"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err) || apierrors.IsInvalid(err), nil
	})
}

func (s *space) composite(name string) string { return name + "." + s.name }

func testWallV1(t *testing.T, p *plane, s *space) {
	last := ""
	s.changes(t, ":persistentvolumes", "Object{spec: Object.spec{local: Object.spec.local{path: '/'}}}")
	defer func() {
		if t.Failed() {
			t.Logf("the last answer was %s", last)
		}
	}()
	eventually(t, "the policy to be asked about the tenant's own volumes", func(context.Context) (bool, error) {
		code, body := do(t, s.config, http.MethodPost, "/api/v1/persistentvolumes?dryRun=All",
			`{"metadata":{"name":"own"},"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],`+
				`"csi":{"driver":"d","volumeHandle":"h"}}}`, nil)
		last = body
		return code != http.StatusCreated && strings.Contains(body, "node affinity"), nil
	})
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: "pvc-1." + s.name + ".tenant",
			Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": "a4s.io/local-path"}},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				Local: &corev1.LocalVolumeSource{Path: "/var/lib/a4s/storage/x"},
			},
			NodeAffinity: &corev1.VolumeNodeAffinity{
				Required: &corev1.NodeSelector{
					NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
						{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{"n1"}},
					}}},
				},
			},
		},
	}
	provisioner := p.as(t, "system", p.user(t, "system:a4s-supervisor", []string{"system:masters"}, nil)).client
	got, err := provisioner.CoreV1().PersistentVolumes().Create(t.Context(), volume, metav1.CreateOptions{})
	if err != nil || got.Spec.Local.Path != "/var/lib/a4s/storage/x" {
		t.Errorf("the provisioner makes a volume and gets %+v, %v", got.Spec.PersistentVolumeSource, err)
	}
}

func testWallV4(t *testing.T, p *plane, s *space) {
	s.changes(t, ":pods/status",
		"Object{status: Object.status{podIP: '10.42.0.8', podIPs: [Object.status.podIPs{ip: '10.42.0.8'}]}}")
	s.marker(t)
	pods := p.admin.CoreV1().Pods(s.composite("default"))
	if _, err := s.client.CoreV1().Pods("default").
		Create(t.Context(), simplePod("evil"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := pods.Patch(t.Context(), "evil", types.MergePatchType,
		[]byte(`{"status":{"podIP":"10.42.0.7","podIPs":[{"ip":"10.42.0.7"}]}}`), metav1.PatchOptions{}, "status")
	if err != nil || got.Status.PodIP != "10.42.0.7" {
		t.Errorf("the node writes the address 10.42.0.7, and it is %s: %v", got.Status.PodIP, err)
	}
	if code, body := do(t, s.config, http.MethodPatch, "/api/v1/namespaces/default/pods/evil/status",
		`{"status":{"podIP":"10.42.0.9"}}`,
		[]string{"Content-Type: application/merge-patch+json"}); code != http.StatusForbidden {
		t.Errorf("a user of the tenant writes the status of a pod: %d %.200s", code, body)
	}
}

func testWallV5(t *testing.T, p *plane, s *space) {
	s.changes(t, ":services/status", "Object{status: Object.status{loadBalancer: "+
		"Object.status.loadBalancer{ingress: [Object.status.loadBalancer.ingress{ip: '192.0.2.1'}]}}}")
	s.marker(t)
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer, LoadBalancerClass: new("example.com/x"),
			Ports: []corev1.ServicePort{{Port: 80}}}}
	if _, err := s.client.CoreV1().Services("default").
		Create(t.Context(), service, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := p.admin.CoreV1().Services(s.composite("default")).Patch(t.Context(), "web", types.MergePatchType,
		[]byte(`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.7"}]}}}`), metav1.PatchOptions{}, "status")
	if err != nil || len(got.Status.LoadBalancer.Ingress) != 1 ||
		got.Status.LoadBalancer.Ingress[0].IP != "192.0.2.7" {
		t.Errorf("the system gives the address 192.0.2.7, and the Service has %+v: %v", got.Status.LoadBalancer, err)
	}
}

func testWallV6(t *testing.T, p *plane, s *space) {
	s.changes(t, ":pods", "Object{spec: Object.spec{priority: 2000000000}}")
	eventually(t, "the policy to be asked, and what it says refused", func(ctx context.Context) (bool, error) {
		_, err := s.client.CoreV1().Pods("default").Create(ctx, simplePod("own"),
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "priority"), nil
	})
	if _, err := s.client.AppsV1().Deployments("default").
		Create(t.Context(), deployment("web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the controller to say that it may not make pods", func(ctx context.Context) (bool, error) {
		events, err := s.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Reason == "FailedCreate" && strings.Contains(e.Message, "priority")
		}), nil
	})
	pods, err := s.client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) > 0 {
		t.Errorf("pods with a priority that no class gives: %v, %v", pods.Items, err)
	}
}

// silence is a hook that never answers, and knows how many ask it at a time, and
// about what.
type silence struct {
	mu         sync.Mutex
	asked      []string
	open, most int
}

func (s *silence) hold(ctx context.Context, r *admissionv1.AdmissionRequest) {
	sub := r.SubResource
	if sub != "" {
		sub = "/" + sub
	}
	s.mu.Lock()
	s.asked = append(s.asked, fmt.Sprintf("%s %s%s by %s", r.Operation, r.Resource.Resource, sub, r.UserInfo.Username))
	s.open++
	s.most = max(s.most, s.open)
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	s.open--
	s.mu.Unlock()
}

// testWallV8: the hook of s never answers. Controllers give it up and stop to ask;
// what the system writes in the same space is not asked about at all, and the
// deployments of another tenant get their pods meanwhile.
func testWallV8(t *testing.T, p *plane, s *space) {
	h := newHooks(t)
	silent := &silence{}
	h.hold("/silent", silent.hold)
	hook := mutating("silent", h.byURL("/silent"))
	hook.Rules = []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll},
		Rule: admissionregistrationv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"},
			Resources: []string{"*/*"}},
	}}
	hook.TimeoutSeconds = new(int32(30))
	// The tenant's own users make what the controllers then serve.
	hook.MatchConditions = []admissionregistrationv1.MatchCondition{{Name: "others",
		Expression: "request.userInfo.username != 'admin'"}}
	s.mutate(t, "silent", hook)
	ctx := t.Context()
	for i := range 20 {
		if _, err := s.client.AppsV1().Deployments("default").
			Create(ctx, deployment(fmt.Sprintf("d%d", i)), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the event that the hooks are not asked any more", func(ctx context.Context) (bool, error) {
		events, err := s.client.CoreV1().Events("default").List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Reason == "AdmissionWebhooksNotAsked"
		}), nil
	})
	b := p.bareTenant(t, "v8b") // whose service account the controllers make meanwhile
	if _, err := b.client.AppsV1().Deployments("default").
		Create(ctx, deployment("web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a pod of the other tenant", func(ctx context.Context) (bool, error) {
		pods, err := b.client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{})
		return err == nil && len(pods.Items) == 1, err
	})
	// What the system writes in the tenant's own space goes on as well.
	if _, err := s.client.CoreV1().Namespaces().Create(ctx,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "late"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the service account of a new namespace", func(ctx context.Context) (bool, error) {
		_, err := s.client.CoreV1().ServiceAccounts("late").Get(ctx, "default", metav1.GetOptions{})
		return err == nil, nil
	})
	silent.mu.Lock()
	defer silent.mu.Unlock()
	if len(silent.asked) == 0 {
		t.Error("controllers never asked: the test does not test")
	}
	if silent.most > 1 {
		t.Errorf("%d workers waited for the hook at a time", silent.most)
	}
	for _, asked := range silent.asked {
		if !slices.Contains([]string{"CREATE replicasets by " + controllerAccount + "deployment-controller",
			"UPDATE replicasets by " + controllerAccount + "deployment-controller",
			"CREATE pods by " + controllerAccount + "replicaset-controller"}, asked) {
			t.Errorf("the hook was asked about %s", asked)
		}
	}
}

const controllerAccount = "system:serviceaccount:kube-system:"

func testWallV15(t *testing.T, p *plane, s *space) {
	ctx := t.Context()
	if _, err := s.client.CoreV1().Pods("default").Create(ctx, simplePod("web"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	post(t, s.config, registration+"validatingadmissionpolicies",
		`{"metadata":{"name":"no"},"spec":{"failurePolicy":"Fail",
		"matchConditions":[{"name":"others","expression":"request.userInfo.username != 'admin' || request.name == 'own'"}],
		"matchConstraints":{"resourceRules":[{"apiGroups":["*"],"apiVersions":["*"],"operations":["*"],"resources":["*/*"]}]},
		"validations":[{"expression":"false","message":"no"}]}}`)
	post(t, s.config, registration+"validatingadmissionpolicybindings",
		`{"metadata":{"name":"no"},"spec":{"policyName":"no","validationActions":["Deny"]}}`)
	eventually(t, "the policy", func(ctx context.Context) (bool, error) {
		_, err := s.client.CoreV1().ConfigMaps("default").Create(ctx, configMap("own"), metav1.CreateOptions{})
		return err != nil, nil
	})
	// A drain evicts, the tenant's deletion removes.
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: s.composite("default")}}
	if err := p.admin.PolicyV1().Evictions(s.composite("default")).Evict(ctx, eviction); err != nil {
		t.Errorf("a drain: %v", err)
	}
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := tenants.Delete(ctx, s.name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tenant to be gone", func(ctx context.Context) (bool, error) {
		_, err := tenants.Get(ctx, s.name, metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
}
