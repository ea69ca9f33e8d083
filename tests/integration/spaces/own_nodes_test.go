package spaces_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
	"github.com/a4s-io/a4s/tests/nstest"
)

// What is said of a node that does not run pods of a tenant.
const (
	lacksLabels = "did not have the labels that nodes of this tenant have: pool=keeper"
	isSetAside  = "had been set aside for another tenant"
)

// specify changes the spec of a Tenant.
func (p *plane) specify(t *testing.T, tenant, spec string) error {
	t.Helper()
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = tenants.Patch(t.Context(), tenant, types.MergePatchType, []byte(`{"spec":`+spec+`}`),
		metav1.PatchOptions{})
	return err
}

// schedules changes spec.scheduling of a Tenant.
func (p *plane) schedules(t *testing.T, tenant, scheduling string) error {
	t.Helper()
	return p.specify(t, tenant, `{"scheduling":`+scheduling+`}`)
}

// pooled makes a node with the label pool.
func (p *plane) pooled(t *testing.T, name, pool string) {
	t.Helper()
	p.readyNode(t, name)
	p.patchNode(t, name, `{"metadata":{"labels":{"kubernetes.io/hostname":"`+name+`","pool":"`+pool+`"}}}`)
}

// newPod makes a pod that is not refused.
func (s *space) newPod(t *testing.T, spec string) *corev1.Pod {
	t.Helper()
	code, answer, pod := s.makesPod(t, "", podBody("", spec))
	if code != http.StatusCreated {
		t.Fatalf("%s: %d %.300s", spec, code, answer)
	}
	return pod
}

// isRefused is a pod that is, with a reason.
func (s *space) isRefused(t *testing.T, spec, reason string) {
	t.Helper()
	code, answer, _ := s.makesPod(t, asDryRun, podBody("", spec))
	if code != http.StatusForbidden || !strings.Contains(answer, reason) {
		t.Errorf("%s: %d %.300s, want %q", spec, code, answer, reason)
	}
}

// comesTo waits until a pod has a node, and fails if it is another.
func (s *space) comesTo(t *testing.T, pod, node string) {
	t.Helper()
	eventually(t, "pod "+pod+" to be placed on "+node, func(ctx context.Context) (bool, error) {
		got, err := s.client.CoreV1().Pods("default").Get(ctx, pod, metav1.GetOptions{})
		if err == nil && got.Spec.NodeName != "" && got.Spec.NodeName != node {
			t.Fatalf("pod %s was placed on %s", pod, got.Spec.NodeName)
		}
		return err == nil && got.Spec.NodeName == node, err
	})
}

// affinity is a required one, with terms of which one has to match.
func affinity(terms string) string {
	return `"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[` +
		terms + `]}}},`
}

// onNode is the term of a node.
func onNode(node string) string {
	return `{"matchFields":[{"key":"metadata.name","operator":"In","values":["` + node + `"]}]}`
}

// TestOwnNodesOfATenant: the pods of a tenant with spec.scheduling run on its nodes only, with
// exclusive nobody else's do, whatever a pod says, whoever made it and whoever binds it; the
// system space goes on, a change counts for pods that wait, and events say why they do.
func TestOwnNodesOfATenant(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	p.pooled(t, "n1", "keeper")
	p.pooled(t, "n2", "guest")
	keeper, guest := p.bareTenant(t, "keeper"), p.bareTenant(t, "guest")
	p.invalidNodes(t)
	early := guest.newPod(t, `"nodeSelector":{"pool":"keeper"},`)
	guest.comesTo(t, early.Name, "n1")

	if err := p.schedules(t, "keeper", `{"nodeSelector":{"pool":"keeper"},"exclusive":true}`); err != nil {
		t.Fatal(err)
	}
	// As far as an administrator can go: these allowances lift every other rule.
	for _, s := range []*space{keeper, guest} {
		p.allow(t, s.name, allowances.PodSecurity, "privileged")
	}
	eventually(t, "the API server to know of both", func(context.Context) (bool, error) {
		code, _, _ := guest.makesPod(t, asDryRun, podBody("", `"hostPID":true,`))
		_, answer, _ := guest.makesPod(t, asDryRun, podBody("", `"nodeName":"n1",`))
		_, own, _ := keeper.makesPod(t, asDryRun, podBody("", `"hostPID":true,"nodeName":"n2",`))
		return code == http.StatusCreated && strings.Contains(answer, isSetAside) &&
			strings.Contains(own, lacksLabels), nil
	})
	const anything = `"tolerations":[{"operator":"Exists"}],`
	keeper.comesTo(t, keeper.newPod(t, "").Name, "n1")
	keeper.comesTo(t, keeper.newPod(t, affinity(onNode("n2")+","+onNode("n1"))).Name, "n1")
	keeper.waitsFor(t, keeper.newPod(t, affinity(onNode("n2"))+anything).Name, lacksLabels)
	keeper.waitsFor(t, keeper.newPod(t, `"nodeSelector":{"kubernetes.io/hostname":"n2"},`).Name, lacksLabels)
	keeper.isRefused(t, `"nodeSelector":{"pool":"guest"},`,
		"asks for a node with pool=guest, and the nodes of this tenant have pool=keeper")
	keeper.isRefused(t, `"nodeName":"n2",`, lacksLabels)
	keeper.isRefused(t, `"nodeName":"later",`, "cannot be compared")

	guest.comesTo(t, guest.newPod(t, anything).Name, "n2")
	guest.waitsFor(t, guest.newPod(t, affinity(onNode("n1"))+anything).Name, isSetAside)
	waiting := guest.newPod(t, `"nodeSelector":{"pool":"keeper"},`+anything)
	guest.waitsFor(t, waiting.Name, isSetAside)
	if said, err := guest.whyWaiting(t.Context(), waiting.Name); err != nil || strings.Contains(
		strings.ReplaceAll(said, waiting.Name, ""), "keeper") {
		t.Errorf("%q names another tenant (%v)", said, err)
	}
	guest.isRefused(t, `"nodeName":"n1",`, isSetAside)
	p.binds(t, guest)
	p.systemGoesOn(t)
	guest.mutatesToNode(t)

	// Changed live: who has a node stays, who waits goes by what is true now.
	if got, err := guest.client.CoreV1().Pods("default").Get(t.Context(), early.Name,
		metav1.GetOptions{}); err != nil || got.Spec.NodeName != "n1" || got.DeletionTimestamp != nil {
		t.Errorf("a pod that was there: %+v, %v", got, err)
	}
	if err := p.schedules(t, "keeper", `{"exclusive":null,"nodeSelector":{"pool":"none"}}`); err != nil {
		t.Fatal(err)
	}
	guest.comesTo(t, waiting.Name, "n1")
	alone := keeper.newPod(t, "")
	keeper.waitsFor(t, alone.Name, "pool=none")
	p.patchNode(t, "n2", `{"metadata":{"labels":{"pool":"none"}}}`)
	keeper.comesTo(t, alone.Name, "n2")

	// Taints of these nodes: its pods tolerate them without asking.
	p.patchNode(t, "n2", `{"spec":{"taints":[{"key":"dedicated","value":"keeper","effect":"NoSchedule"}]}}`)
	if err := p.schedules(t, "keeper", `{"tolerations":[{"key":"dedicated","value":"keeper"}]}`); err != nil {
		t.Fatal(err)
	}
	eventually(t, "pods to tolerate it", func(context.Context) (bool, error) {
		_, _, pod := keeper.makesPod(t, asDryRun, podBody("", ""))
		return slices.ContainsFunc(pod.Spec.Tolerations,
			func(t corev1.Toleration) bool { return t.Key == "dedicated" && t.Value == "keeper" }), nil
	})
	keeper.comesTo(t, keeper.newPod(t, "").Name, "n2")
	p.keptWithoutAUse(t, guest)
}

// invalidNodes: what is wrong is refused, and the answer names the field.
func (p *plane) invalidNodes(t *testing.T) {
	t.Helper()
	for scheduling, path := range map[string]string{
		`{"exclusive":true}`:                         "spec.scheduling.nodeSelector",
		`{"nodeSelector":{"a b":"c"}}`:               "spec.scheduling.nodeSelector",
		`{"tolerations":[{"operator":"Sometimes"}]}`: "spec.scheduling.tolerations[0].operator",
	} {
		if err := p.schedules(t, "keeper", scheduling); !apierrors.IsInvalid(err) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", scheduling, err)
		}
	}
	if err := p.schedules(t, "system", `{"nodeSelector":{"a":"b"}}`); !apierrors.IsInvalid(err) {
		t.Errorf("of the system space: %v", err)
	}
}

// binds: whoever binds pods is judged as the scheduler is, and tenants bind none.
func (p *plane) binds(t *testing.T, guest *space) {
	t.Helper()
	pod := guest.newPod(t, `"schedulerName":"own",`)
	binding := func(node string) *corev1.Binding {
		return &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: pod.Name},
			Target: corev1.ObjectReference{Kind: "Node", Name: node}}
	}
	ctx := t.Context()
	for _, node := range []string{"n1", "n2"} {
		if err := guest.client.CoreV1().Pods("default").Bind(ctx, binding(node),
			metav1.CreateOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("the tenant binds a pod to %s: %v", node, err)
		}
	}
	pods := p.admin.CoreV1().Pods("default.guest")
	if err := pods.Bind(ctx, binding("n1"), metav1.CreateOptions{}); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), isSetAside) {
		t.Errorf("bound to a node of another: %v", err)
	}
	body := fmt.Sprintf(`{"metadata":{"name":%q},"target":{"kind":"Node","name":"n1"}}`, pod.Name)
	if code, answer := do(t, p.Admin, http.MethodPost, "/api/v1/namespaces/default.guest/bindings", body,
		nil); code != http.StatusForbidden || !strings.Contains(answer, isSetAside) {
		t.Errorf("bound by the other way: %d %s", code, answer)
	}
	if err := pods.Bind(ctx, binding("n2"), metav1.CreateOptions{}); err != nil {
		t.Errorf("bound to a node that it may have: %v", err)
	}
}

// systemGoesOn: pods of the system space run on all nodes, DaemonSets among them.
func (p *plane) systemGoesOn(t *testing.T) {
	t.Helper()
	ctx := t.Context()
	if _, err := p.admin.AppsV1().DaemonSets("kube-system").Create(ctx, &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: "agent"}, Spec: appsv1.DaemonSetSpec{
			Selector: deployment("agent").Spec.Selector, Template: deployment("agent").Spec.Template},
	}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a DaemonSet to be on all nodes", func(ctx context.Context) (bool, error) {
		list, err := p.admin.CoreV1().Pods("kube-system").List(ctx, metav1.ListOptions{})
		on := map[string]bool{}
		for _, pod := range list.Items {
			if strings.HasPrefix(pod.Name, "agent-") && pod.Spec.NodeName != "" {
				on[pod.Spec.NodeName] = true
			}
		}
		return on["n1"] && on["n2"], err
	})
}

// mutatesToNode: what a policy of the tenant makes of its pods is judged as theirs.
func (s *space) mutatesToNode(t *testing.T) {
	t.Helper()
	s.mutates(t, "pods", "has(object.metadata.labels)", `Object{metadata: Object.metadata{annotations: {'seen': ''}},`+
		` spec: Object.spec{nodeName: 'n1'}}`)
	eventually(t, "a policy that names a node to be judged", func(context.Context) (bool, error) {
		code, answer, pod := s.makesPod(t, asDryRun, podBody(`"labels":{"marked":""},`, ""))
		if code == http.StatusCreated && pod.Spec.NodeName == "n1" {
			t.Fatal("a policy has named the node of another tenant")
		}
		return code == http.StatusForbidden && strings.Contains(answer, isSetAside), nil
	})
}

// keptWithoutAUse: nodes are kept from the moment that the Tenant is made, though nobody has
// used its space, and until it is gone.
func (p *plane) keptWithoutAUse(t *testing.T, guest *space) {
	t.Helper()
	ctx := t.Context()
	p.pooled(t, "n3", "sleeper")
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	sleeper := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "sleeper"}}
	sleeper.Spec.Scheduling = &tenantapi.TenantScheduling{NodeSelector: map[string]string{"pool": "sleeper"},
		Exclusive: true}
	made, err := tenants.Create(ctx, sleeper, metav1.CreateOptions{})
	if err != nil || made.Dormant() {
		t.Fatalf("%+v, %v", made, err)
	}
	const there = `"nodeSelector":{"pool":"sleeper"},`
	eventually(t, "the API server to know the tenant", func(context.Context) (bool, error) {
		_, answer, _ := guest.makesPod(t, asDryRun, podBody("", `"nodeName":"n3",`))
		return strings.Contains(answer, isSetAside), nil
	})
	pod := guest.newPod(t, there)
	guest.waitsFor(t, pod.Name, isSetAside)
	if err := tenants.Delete(ctx, "sleeper", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	guest.comesTo(t, pod.Name, "n3")
}
