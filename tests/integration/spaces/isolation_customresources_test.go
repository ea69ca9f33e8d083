package spaces_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// isolationGroup is defined by everybody, and by everybody differently.
const isolationGroup = "iso.example.com"

// customKinds are what the attacker asks for besides the table of kinds, once
// for every two of that.
func customKinds() []kinds.Kind {
	customs := []kinds.Kind{
		{Group: isolationGroup, Resource: "foos", Kind: "Foo", Namespaced: true},
		{Group: isolationGroup, Resource: "foos", Kind: "Foo"},
		{Group: isolationGroup, Resource: "bars", Kind: "Bar", Namespaced: true},
		{Group: isolationGroup, Resource: "bars", Kind: "Bar"},
		{Group: isolationGroup, Resource: "shareds", Kind: "Shared", Namespaced: true},
		{Group: isolationGroup, Resource: "privates", Kind: "Private", Namespaced: true},
		{Group: isolationGroup, Resource: "others", Kind: "Other"},
		{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions", Kind: "CustomResourceDefinition"},
	}
	rows := kinds.Rows()
	all := rows
	for len(all) < len(rows)*3/2 {
		all = append(all, customs...)
	}
	return all
}

// plantCustoms makes CRDs and custom resources: those of the tenant b
// and of the system have the canary in names, schemas and contents.
func plantCustoms(t *testing.T, p *plane, b *space, word string) {
	t.Helper()
	canaried := func(crd *apiextensionsv1.CustomResourceDefinition) {
		crd.Annotations = map[string]string{"note": word}
		crd.Spec.Names.ShortNames, crd.Spec.Names.Categories = []string{word}, []string{word}
		v := &crd.Spec.Versions[0]
		v.AdditionalPrinterColumns = []apiextensionsv1.CustomResourceColumnDefinition{{Name: word, Type: "string",
			JSONPath: ".spec.secret"}}
		v.Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object", Description: word,
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"spec": {Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"secret": {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"` + word + `"`)}},
					word:     {Type: "string"},
					"size":   {Type: "integer"},
				}, XValidations: apiextensionsv1.ValidationRules{
					{Rule: "!has(self.size) || self.size < 3", Message: word},
				}},
			}}
		old := v.DeepCopy()
		old.Name, old.Storage = "v2", false
		crd.Spec.Versions = append(crd.Spec.Versions, *old)
	}
	withoutShortName := func(crd *apiextensionsv1.CustomResourceDefinition) { crd.Spec.Names.ShortNames = nil }
	system := p.as(t, "system", p.Admin)
	forced := system.define(t,
		definition(isolationGroup, named("shareds", "Shared"), withScale, secretive(word, "forced")))
	private := system.define(t, definition(isolationGroup, named("privates", "Private"), canaried, withoutShortName))
	foos := b.define(t, definition(isolationGroup, clusterWide, withScale, canaried))
	bars := b.define(t, definition(isolationGroup, named("bars", "Bar"), withScale, canaried, withoutShortName))
	others := b.define(t,
		definition(isolationGroup, named("others", "Other"), clusterWide, canaried, withoutShortName))
	b.define(t, definition(word+".example.com", canaried))
	for _, name := range []string{"web", "x-" + word} {
		secret := func(s *space, gvr schema.GroupVersionResource, namespace string) {
			t.Helper()
			object := foo(gvr, name, map[string]any{"secret": word})
			object.SetLabels(map[string]string{"app": word})
			s.makes(t, gvr, namespace, object)
		}
		secret(b, foos, "")
		secret(b, others, "")
		for _, ns := range []string{"default", "kube-system"} {
			secret(b, bars, ns)
			secret(b, forced, ns)
			secret(system, forced, ns)
			secret(system, private, ns)
		}
		secret(system, forced, "a")
	}
}

// keepsCustoms reports whether everything that was planted in b is there.
func keepsCustoms(t *testing.T, p *plane, b *space, c canary) {
	t.Helper()
	for _, path := range []string{"foos", "foos/web", "others/web", "namespaces/default/bars/web", "bars",
		"namespaces/kube-system/shareds/web", "namespaces/default/bars/web/status"} {
		if code, body := get(t, p.Admin, "/apis/"+isolationGroup+"/v1/tenants/b/"+path); code != http.StatusOK ||
			!c.in([]byte(body)) {
			t.Errorf("%s of the other tenant: %d", path, code)
		}
	}
	if code, body := get(t, p.Admin, "/apis/"+isolationGroup+
		"/v1/tenants/system/namespaces/default/privates/web"); code != http.StatusOK || !c.in([]byte(body)) {
		t.Errorf("of the system: %d", code)
	}
	if list, err := b.definitions(t).List(t.Context(), metav1.ListOptions{}); err != nil || len(list.Items) != 5 {
		t.Errorf("definitions of the other tenant: %v, %v", list, err)
	}
}

// ownCustoms gives the attacker custom resources of their own, and again and
// again until the test ends, as they delete them. What is asked for in an
// unlucky moment is not there, which is no failure.
func ownCustoms(t *testing.T, a *space, done <-chan struct{}) {
	t.Helper()
	foos := a.define(t, definition(isolationGroup, withScale))
	bars := a.define(t, definition(isolationGroup, named("bars", "Bar"), clusterWide))
	definitions := a.definitions(t)
	ctx := t.Context()
	again := func() {
		_, _ = definitions.Create(ctx, definition(isolationGroup, withScale), metav1.CreateOptions{})
		_, _ = definitions.Create(ctx, definition(isolationGroup, named("bars", "Bar"), clusterWide),
			metav1.CreateOptions{})
		_, _ = a.in(foos, "default").Create(ctx, foo(foos, "web", map[string]any{"replicas": int64(1)}),
			metav1.CreateOptions{})
		_, _ = a.in(bars, "").Create(ctx, foo(bars, "web", map[string]any{"replicas": int64(1)}),
			metav1.CreateOptions{})
	}
	again()
	go func() {
		for ticks := time.Tick(200 * time.Millisecond); ; again() {
			select {
			case <-done:
				return
			case <-ticks:
			}
		}
	}()
}

// definition is the name and the spec of a CRD that may well be valid:
// what they have deleted comes back.
func (g *attacker) definition() (name, spec string) {
	plural := pick(g, "foos", "foos", "bars", "others", "privates", "shareds", "foos.b", "mines")
	kind := strings.ToUpper(plural[:1]) + strings.TrimSuffix(plural[1:], "s")
	conversion := pick(g, "", "", "", `,"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":[`+
		`"v1"],"clientConfig":{"service":{"namespace":"`+pick(g, "default", "default.b", "b")+`","name":"web"}}}}`)
	group := pick(g, isolationGroup, isolationGroup, isolationGroup, isolationGroup,
		isolationGroup+".b.tenant", "example.com")
	if name = plural + "." + group; g.chance(20) {
		name = strings.ReplaceAll(g.definitionName(), "%", "")
	}
	return name, `,"spec":{"group":"` + group + `","scope":"` + pick(g, "Namespaced", "Cluster") + `"` +
		`,"names":{"plural":"` + plural + `","kind":"` + kind + `"}` + conversion +
		`,"versions":[{"name":"` + pick(g, "v1", "v1", "v2") + `","served":true,"storage":true` +
		pick(g, "", `,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.replicas",`+
			`"statusReplicasPath":".status.replicas"}}`) +
		`,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}`
}

// definitionName is one that is defined by them, by others, or not at all.
func (g *attacker) definitionName() string {
	return pick(g, "foos", "foos", "bars", "bars", "others", "privates", "shareds", "mines", "..%2Fb%2Ffoos") + "." +
		isolationGroup + pick(g, "", "", "", ".b.tenant", ".a.tenant", ".tenant", ".b", ".system.tenant")
}

// customName is a name of a custom resource.
func (g *attacker) customName() string {
	return pick(g, "web", "web", "web", "web.b.tenant", "x.b.tenant", "web.a.tenant", "b/web", "default/web",
		"../b/web", "..%2F..%2Fb%2Fweb", "web%2Fstatus", "default.b", "n1")
}
