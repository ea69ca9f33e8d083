package spaces_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/tests/nstest"
)

// keyName is the name of the objects whose keys are looked at. Only that of a
// definition is made of what it defines.
func keyName(r schema.GroupResource) string {
	if r.Group == "apiextensions.k8s.io" {
		return "zz-keys.example.com"
	}
	return "zz-key"
}

// bodies are the smallest valid objects, without their metadata, of every
// resource that tenants can store. One that is missing fails the test.
func bodies() map[string]string {
	const template = `"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}`
	const selected = `{"selector":{"matchLabels":{"a":"b"}},` + template + `}`
	const rules = `"matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":["none.example.com"],` +
		`"apiVersions":["v1"],"resources":["nothing"]}]}`
	return map[string]string{
		"configmaps":  `{}`,
		"endpoints":   `{}`,
		"events":      `{"involvedObject":{"namespace":"default","name":"x"}}`,
		"limitranges": `{"spec":{"limits":[]}}`,
		"namespaces":  `{}`,
		"persistentvolumeclaims": `{"spec":{"storageClassName":"none","accessModes":["ReadWriteOnce"],` +
			`"resources":{"requests":{"storage":"1Gi"}}}}`,
		"persistentvolumes": `{"spec":{"storageClassName":"none","accessModes":["ReadWriteOnce"],` +
			`"capacity":{"storage":"1Gi"},"nfs":{"server":"192.0.2.9","path":"/x"}}}`,
		"pods":                   `{"spec":{"containers":[{"name":"c","image":"i"}]}}`,
		"podtemplates":           `{` + template + `}`,
		"replicationcontrollers": `{"spec":{"replicas":0,"selector":{"a":"b"},` + template + `}}`,
		"resourcequotas":         `{"spec":{"hard":{"count/none":"1"}}}`,
		"secrets":                `{}`,
		"serviceaccounts":        `{}`,
		"services":               `{"spec":{"clusterIP":"None"}}`,
		"tenantaccesses": `{"spec":{"tenant":"a","user":"x","secret":{"namespace":"default",` +
			`"name":"of-an-access"}}}`,
		"mutatingadmissionpolicies.admissionregistration.k8s.io": `{"spec":{` + rules +
			`,"reinvocationPolicy":"Never","mutations":[{"patchType":"JSONPatch",` +
			`"jsonPatch":{"expression":"[JSONPatch{op: \"test\", path: \"/x\", value: \"y\"}]"}}]}}`,
		"mutatingadmissionpolicybindings.admissionregistration.k8s.io": `{"spec":{"policyName":"none"}}`,
		"mutatingwebhookconfigurations.admissionregistration.k8s.io":   `{}`,
		"validatingadmissionpolicies.admissionregistration.k8s.io": `{"spec":{` + rules +
			`,"validations":[{"expression":"true"}]}}`,
		"validatingadmissionpolicybindings.admissionregistration.k8s.io": `{"spec":{"policyName":"none",` +
			`"validationActions":["Deny"]}}`,
		"validatingwebhookconfigurations.admissionregistration.k8s.io": `{}`,
		"customresourcedefinitions.apiextensions.k8s.io": `{"spec":{"group":"example.com","scope":"Cluster",` +
			`"names":{"plural":"zz-keys","kind":"ZZKey"},"versions":[{"name":"v1","served":true,"storage":true,` +
			`"schema":{"openAPIV3Schema":{"type":"object"}}}]}}`,
		"controllerrevisions.apps": `{"revision":1,"data":{"x":"y"}}`,
		"deployments.apps":         `{"spec":` + selected + `}`,
		"replicasets.apps":         `{"spec":` + selected + `}`,
		"statefulsets.apps":        `{"spec":` + selected + `}`,
		"horizontalpodautoscalers.autoscaling": `{"spec":{"maxReplicas":1,"scaleTargetRef":{"kind":"Deployment",` +
			`"name":"x","apiVersion":"apps/v1"}}}`,
		"cronjobs.batch": `{"spec":{"schedule":"0 0 1 1 *","jobTemplate":{"spec":{"template":{"spec":{` +
			`"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}}}}`,
		"jobs.batch": `{"spec":{"suspend":true,"template":{"spec":{"restartPolicy":"Never",` +
			`"containers":[{"name":"c","image":"i"}]}}}}`,
		"leases.coordination.k8s.io": `{}`,
		"leasecandidates.coordination.k8s.io": `{"spec":{"leaseName":"x","binaryVersion":"1.0.0",` +
			`"emulationVersion":"1.0.0","strategy":"OldestEmulationVersion"}}`,
		"endpointslices.discovery.k8s.io": `{"addressType":"IPv4","endpoints":[]}`,
		"ingresses.networking.k8s.io": `{"spec":{"defaultBackend":{"service":{` +
			`"name":"x","port":{"number":80}}}}}`,
		"networkpolicies.networking.k8s.io": `{"spec":{"podSelector":{}}}`,
		"poddisruptionbudgets.policy": `{"spec":{"minAvailable":1,` +
			`"selector":{"matchLabels":{"a":"b"}}}}`,
		"clusterrolebindings.rbac.authorization.k8s.io": `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io",` +
			`"kind":"ClusterRole","name":"view"}}`,
		"clusterroles.rbac.authorization.k8s.io": `{}`,
		"rolebindings.rbac.authorization.k8s.io": `{"roleRef":{"apiGroup":"rbac.authorization.k8s.io",` +
			`"kind":"ClusterRole","name":"view"}}`,
		"roles.rbac.authorization.k8s.io":        `{}`,
		"resourceclaims.resource.k8s.io":         `{"spec":{}}`,
		"resourceclaimtemplates.resource.k8s.io": `{"spec":{"spec":{}}}`,
		"podgroups.scheduling.k8s.io":            `{"spec":{"schedulingPolicy":{"basic":{}}}}`,
		"workloads.scheduling.k8s.io": `{"spec":{"podGroupTemplates":[{` +
			`"name":"x","schedulingPolicy":{"basic":{}}}]}}`,
	}
}

// TestSeedETCDKeyPathsOfEveryResource makes an object of every resource that
// tenants have, in a tenant and in the system space, and reads their keys in
// etcd: the tenant's is the system's with the tenant before the namespace or,
// for what has none, before the name.
func TestSeedETCDKeyPathsOfEveryResource(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, func(cfg *config.Server) { cfg.DisableHelmController = true }) // its kinds are CRDs of the system
	a := p.tenant(t, "a")
	system, err := dynamic.NewForConfig(p.Admin)
	if err != nil {
		t.Fatal(err)
	}
	served := map[schema.GroupResource]schema.GroupVersionResource{}
	lists, err := p.admin.Discovery().ServerPreferredResources()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range list.APIResources {
			if slices.Contains(r.Verbs, "create") && slices.Contains(r.Verbs, "list") {
				served[gv.WithResource(r.Name).GroupResource()] = gv.WithResource(r.Name)
			}
			if _, ok := kinds.New().Resource(gv.Group, r.Name); !ok {
				t.Errorf("%s of %s is not in the table of kinds", r.Name, gv)
			}
		}
	}
	checked := 0
	for _, k := range kinds.Rows() {
		gr := schema.GroupResource{Group: k.Group, Resource: k.Resource}
		gvr, ok := served[gr]
		if !ok || k.Class != kinds.Tenant || gr == (schema.GroupResource{Group: "events.k8s.io", Resource: "events"}) {
			continue
		}
		t.Run(gr.String(), func(t *testing.T) {
			body, ok := bodies()[gr.String()]
			if !ok {
				t.Fatal("there is no body for this resource")
			}
			ofSystem := p.keyOf(t, system, gvr, k, body)
			ofTenant := p.keyOf(t, a.dynamic, gvr, k, body)
			name := keyName(gr)
			want := strings.TrimSuffix(ofSystem, "/"+name) + "/a/" + name
			if k.Namespaced {
				want = strings.TrimSuffix(ofSystem, "/default/"+name) + "/a/default/" + name
			}
			if ofTenant != want {
				t.Errorf("key of the tenant %s, of the system %s", ofTenant, ofSystem)
			}
		})
		checked++
	}
	if checked < 35 {
		t.Errorf("only %d resources were looked at", checked)
	}
}

// keyOf makes an object and returns its key.
func (p *plane) keyOf(
	t *testing.T, client dynamic.Interface, gvr schema.GroupVersionResource, k kinds.Kind, body string,
) string {
	t.Helper()
	name := keyName(gvr.GroupResource())
	object := map[string]any{}
	if err := json.Unmarshal([]byte(body), &object); err != nil {
		t.Fatal(err)
	}
	maps.Copy(object, map[string]any{"apiVersion": gvr.GroupVersion().String(), "kind": k.Kind,
		"metadata": map[string]any{"name": name}})
	var target dynamic.ResourceInterface = client.Resource(gvr)
	if k.Namespaced {
		target = client.Resource(gvr).Namespace("default")
	}
	before := p.keys(t, "/"+name)
	if _, err := target.Create(t.Context(), &unstructured.Unstructured{Object: object},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = target.Delete(context.Background(), name, metav1.DeleteOptions{}) })
	var made []string
	for _, key := range p.keys(t, "/"+name) {
		if !slices.Contains(before, key) && strings.HasSuffix(key, "/"+name) {
			made = append(made, key)
		}
	}
	if len(made) != 1 {
		t.Fatalf("keys made: %v", made)
	}
	return made[0]
}
