package spaces_test

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/workload"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

// What the attacker may have. All else has to be refused, left out or filled in.
const (
	ownRuntime = "container"
	ownStorage = "fast"
)

// narrow gives the attacker lists of classes, and nodes: one of its own, the others by its template.
func (p *plane) narrow(t *testing.T, s *space) {
	t.Helper()
	post(t, p.Admin, "/api/v1/tenanttemplates", `{"metadata":{"name":"narrow"},"spec":{"images":["docker.io"],`+
		`"scheduling":{"nodeSelector":{"pool":"own"}},"allow":{"storageClasses":["`+ownStorage+`"]}}}`)
	if err := p.specify(t, s.name, `{"template":"narrow"}`); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the nodes of the attacker to be known", func(context.Context) (bool, error) {
		code, _, _ := s.makesPod(t, asDryRun, podBody("", `"nodeSelector":{"pool":"other"},`))
		_, answer, _ := s.makesPod(t, asDryRun, withImage(foreignImage))
		return code == http.StatusForbidden && strings.Contains(answer, "this space has images of"), nil
	})
	p.holds(t, s, allowances.RuntimeClasses, ownRuntime, func() bool {
		_, _, pod := s.makesPod(t, asDryRun, podBody("", ""))
		code, _ := do(t, s.config, http.MethodPost, inClaims+asDryRun, `{"metadata":{"name":"x"},`+claimSpec("")+`}`,
			nil)
		return classOf(pod) == ownRuntime && code == http.StatusForbidden
	})
}

// past asks for what is past the attacker's allowances, most of all by saying nothing.
func (g *attacker) past(r *attack) (path string) {
	name := "past-" + strconv.Itoa(g.rand.IntN(30))
	annotation := `"` + workload.Annotation + `":"` + pick(g, "vm", "vm", "container", "unikernel", "") + `"`
	class := `"storageClassName":"` + pick(g, "", ownStorage, "local-path", "other") + `"`
	claim := claimSpec(pick(g, "", ","+class, `,"volumeAttributesClassName":"other"`))
	meta := pick(g, "", "", `"annotations":{`+annotation+`},`)
	spec := strings.Join([]string{
		pick(g, "", "", `"runtimeClassName":"`+pick(g, "vm", "container", "kata", "")+`",`),
		pick(g, "", "", `"tolerations":[{"key":"`+pick(g, "team", "node.kubernetes.io/unschedulable",
			"example.com/gpu", "")+
			`","operator":"Exists"}],`),
		pick(g, "", "", `"nodeSelector":{"pool":"own"},`, `"nodeSelector":{"pool":"other"},`),
		pick(g, "", "", `"nodeName":"stolen",`, `"priorityClassName":"`+pick(g, "system-node-critical", "",
			"high")+`",`),
		pick(g, "", "", `"volumes":[{"name":"v","csi":{"driver":"nfs.csi.k8s.io","volumeAttributes":{"share":"/"}}}],`,
			`"volumes":[{"name":"v","ephemeral":{"volumeClaimTemplate":{`+claim+`}}}],`),
	}, "")
	image := pick(g, "i", "i", "i", foreignImage, "sha256:0123456789", "docker.io/../x")
	template := `{"metadata":{` + meta + `"labels":{"a":"b"}},"spec":{` + spec +
		`"containers":[{"name":"c","image":"` + image + `"}]}}`
	const apps = "/apis/apps/v1/namespaces/default/"
	selector := `"selector":{"matchLabels":{"a":"b"}},"template":` + template
	switch g.rand.IntN(8) {
	case 0:
		r.body = `{"metadata":{"name":"` + name + `"},"spec":{` + selector + `}}`
		return apps + pick(g, "deployments", "replicasets")
	case 1:
		r.body = `{"metadata":{"name":"` + name + `"},"spec":{"serviceName":"x",` + selector +
			`,"volumeClaimTemplates":[{"metadata":{"name":"v"},` + claim + `}]}}`
		return apps + "statefulsets"
	case 2:
		r.body = `{"metadata":{` + pick(g, "", beta("local-path")) + `"name":"` + name + `"},` + claim + `}`
		return inClaims
	case 3:
		r.method = http.MethodPatch
		r.header.Set("Content-Type", "application/merge-patch+json")
		r.body = pick(g, `{"metadata":{"annotations":{`+annotation+`}}}`,
			`{"spec":{"tolerations":[{"key":"team","operator":"Exists"},{"operator":"Exists"}]}}`,
			`{"spec":{"nodeSelector":{"pool":"other"}}}`,
			`{"spec":{"containers":[{"name":"c","image":"`+image+`"}]}}`,
			`{"spec":{"ephemeralContainers":[{"name":"e","image":"`+image+`"}]}}`)
		return inPods + "/" + name + pick(g, "", "", "/status", "/ephemeralcontainers", "/resize")
	case 4:
		r.method = http.MethodPatch
		r.header.Set("Content-Type", "application/merge-patch+json")
		r.body = `{"spec":{` + pick(g, class, `"volumeAttributesClassName":"other"`) + `}}`
		return inClaims + "/" + name
	case 5:
		if g.chance(30) { // what makes room for the next
			r.method = http.MethodDelete
			return pick(g, inPods, inClaims) + "/" + name + "?gracePeriodSeconds=0"
		}
	}
	r.body = strings.Replace(template, `"metadata":{`, `"metadata":{"name":"`+name+`",`, 1)
	return inPods
}

// keepsAllowances: there is nothing of the attacker's that is past its allowances,
// whoever made it.
func keepsAllowances(ctx context.Context, t *testing.T, p *plane) {
	t.Helper()
	pods, err := p.admin.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	usual := []string{"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable",
		"node.kubernetes.io/memory-pressure"}
	seen := 0
	for _, pod := range pods.Items {
		if !strings.HasSuffix(pod.Namespace, ".a") {
			continue
		}
		seen++
		bad := classOf(&pod) != ownRuntime
		kind := pod.Annotations[workload.Annotation]
		bad = bad || kind != "" && kind != "container" || pod.Spec.Priority != nil && *pod.Spec.Priority > 0
		bad = bad || pod.Spec.NodeSelector["pool"] == "other" || pod.Spec.NodeName != ""
		for _, c := range pod.Spec.Containers {
			bad = bad || c.Image == foreignImage || strings.HasPrefix(c.Image, "sha256:")
		}
		for _, c := range pod.Spec.EphemeralContainers {
			bad = bad || c.Image == foreignImage || strings.HasPrefix(c.Image, "sha256:")
		}
		for _, toleration := range pod.Spec.Tolerations {
			bad = bad || !slices.Contains(usual, toleration.Key)
		}
		for _, v := range pod.Spec.Volumes {
			bad = bad || v.CSI != nil
		}
		if bad {
			body, _ := json.Marshal(pod) //nolint:errcheck // it is shown
			t.Errorf("there is a pod past the allowances: %s", body)
		}
	}
	t.Logf("%d pods of the attacker are as they may be", seen)
	claims, err := p.admin.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range claims.Items {
		if !strings.HasSuffix(c.Namespace, ".a") {
			continue
		}
		for _, name := range []*string{c.Spec.StorageClassName, c.Spec.VolumeAttributesClassName} {
			if name != nil && *name != "" && *name != ownStorage {
				t.Errorf("there is a claim %s/%s of the class %s", c.Namespace, c.Name, *name)
			}
		}
		if of := c.Annotations["volume.beta.kubernetes.io/storage-class"]; of != "" && of != ownStorage {
			t.Errorf("there is a claim %s/%s of the class %s by annotation", c.Namespace, c.Name, of)
		}
	}
}
