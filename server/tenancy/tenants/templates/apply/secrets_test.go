package apply

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

const (
	secrets = "/api/v1/namespaces/default/secrets/"
	source  = ofSystem + "/api/v1/namespaces/platform/secrets/registry"
)

// copies has the template have a Secret, which is a copy of source.
func (f *fakeSpace) copies() {
	f.of.Spec.Secrets = []tenantapi.TemplateSecret{{Namespace: "default", Name: "registry",
		From: tenantapi.TemplateSecretSource{Namespace: "platform", Name: "registry"}}}
}

// TestOnlySecretsThatSaySoAreCopied: a template gets what is in no other Secret, nor learns which there are.
func TestOnlySecretsThatSaySoAreCopied(t *testing.T) {
	allowed := map[string]any{tenantapi.CopyLabel: "true"}
	const none = "there is no Secret platform/registry with the label"
	for name, c := range map[string]struct {
		labels map[string]any
		typ    string
		data   string
		want   string // "" for a copy
	}{
		"none":              {nil, "", "", none},
		"no label":          {map[string]any{}, "Opaque", "eA==", none},
		"another value":     {map[string]any{tenantapi.CopyLabel: "false"}, "Opaque", "eA==", none},
		"allowed":           {allowed, "Opaque", "eA==", ""},
		"a token":           {allowed, "kubernetes.io/service-account-token", "eA==", "is not copied"},
		"a bootstrap token": {allowed, "bootstrap.kubernetes.io/token", "eA==", "is not copied"},
		"of an access": {map[string]any{tenantapi.CopyLabel: "true", tenantapi.AccessLabel: "a"}, "Opaque", "eA==",
			"credentials of a TenantAccess"},
		"much": {allowed, "Opaque", strings.Repeat("eA==", tenantapi.MaxTemplateBytes/4),
			"bytes together"},
	} {
		f, c2 := newFakeSpace(t)
		f.copies()
		f.says(t, configMap("c"))
		if c.labels != nil {
			f.put(source, "s", map[string]any{"labels": c.labels, "annotations": map[string]any{"a": "b"}})
			f.objects[source].Object["type"] = c.typ
			f.objects[source].Object["data"] = map[string]any{"k": c.data}
		}
		err := c2.reconcile(t.Context(), "t")
		is := f.objects[secrets+"registry"]
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) || is != nil ||
				!strings.Contains(err.Error(), "Secret default/registry: ") {
				t.Errorf("%s: %v, %v", name, err, is)
			}
		} else if err != nil || is == nil || data(is)["k"] != c.data || is.Object["type"] != c.typ ||
			len(is.GetAnnotations()) > 0 || is.GetLabels()[tenantapi.CopyLabel] != "" {
			t.Errorf("%s: %v, %v", name, err, is)
		}
		// All else is there, and who has the name is protected by the status before it is made.
		if f.objects[configMaps+"c"] == nil || !f.tenant.Status.Template.Has(tenantapi.TemplateObject{
			Kind: "Secret", Namespace: "default", Name: "registry"}) {
			t.Errorf("%s: %v", name, f.tenant.Status.Template)
		}
		if c := f.tenant.Status.Conditions[1]; c.Status == metav1.ConditionTrue != (err == nil) {
			t.Errorf("%s: the condition is %+v", name, c)
		}
	}
}

// TestChangedSecretsWaitForNoTurn: a roll-out that another tenant stops does not keep a tenant on a Secret that is
// good no more, and brings it nothing else before its turn.
func TestChangedSecretsWaitForNoTurn(t *testing.T) {
	f, c := newFakeSpace(t)
	f.copies()
	put := func(path, word string) {
		f.put(path, "s", map[string]any{"labels": map[string]any{tenantapi.CopyLabel: "true"}})
		f.objects[path].Object["data"] = map[string]any{"k": word}
	}
	put(source, "b2xk")
	has := func(what, word string) {
		t.Helper()
		if err := c.reconcile(t.Context(), "t"); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if is := f.objects[secrets+"registry"]; is == nil || data(is)["k"] != word {
			t.Errorf("%s: %v", what, is)
		}
	}
	has("made", "b2xk")
	if from := f.tenant.Status.Template.Objects[0].From; from != "platform/registry" {
		t.Errorf("it is from %q", from)
	}
	f.says(t, configMap("c"))
	f.of.Generation = 2
	put(source, "bmV3")
	has("waiting", "bmV3")
	f.objects[secrets+"registry"].SetLabels(nil)
	put(source, "bmV3ZXI=")
	has("waiting, without its labels", "bmV3ZXI=")
	put(source, "bmV3")
	has("waiting again", "bmV3")
	if f.objects[configMaps+"c"] != nil || f.tenant.Status.Template.Generation != 1 {
		t.Errorf("the change came before its turn: %+v", f.tenant.Status.Template)
	}
	delete(f.objects, secrets+"registry")
	has("deleted meanwhile", "bmV3")
	if is := f.tenant.Status.Template.Objects[0]; is.UID != f.objects[secrets+"registry"].GetUID() {
		t.Errorf("the status has %+v", is)
	}
	f.of.Spec.Secrets[0].From.Name = "other"
	put(ofSystem+"/api/v1/namespaces/platform/secrets/other", "b3RoZXI=")
	has("waiting for another one", "bmV3")
	c.turns.give(f.of, "t")
	has("its turn", "b3RoZXI=")
	if f.objects[configMaps+"c"] == nil || f.tenant.Status.Template.Generation != 2 {
		t.Errorf("its turn: %+v", f.tenant.Status.Template)
	}
}

// putSource has a Secret be there that may be copied, with a word in it.
func (f *fakeSpace) putSource(path, word string) {
	f.put(path, "s", map[string]any{"labels": map[string]any{tenantapi.CopyLabel: "true"}})
	f.objects[path].Object["data"] = map[string]any{"k": word}
}

// TestChangedSecretsReachWhoCannotHaveTheRest: what a tenant does in its space, or what is wrong with the template,
// keeps no copy as it was. One Secret does not wait for another one.
func TestChangedSecretsReachWhoCannotHaveTheRest(t *testing.T) {
	for name, c := range map[string]struct {
		breaks func(*fakeSpace)
		want   string
	}{
		"an object": {func(f *fakeSpace) {
			f.says(t, configMap("c"))
			f.refuse["/configmaps/c"] = http.StatusUnprocessableEntity
		}, "ConfigMap default/c: "},
		"the labels of the Tenant": {func(f *fakeSpace) {
			f.refuse["/api/v1/tenants/t"] = http.StatusUnprocessableEntity
		}, "the labels of the Tenant"},
		"the template": {func(f *fakeSpace) {
			f.of.Spec.Objects = []runtime.RawExtension{{Raw: []byte(configMap("$(tenant.labels['none'])"))}}
		}, "no label"},
		"another Secret": {func(f *fakeSpace) {
			first := f.of.Spec.Secrets[0]
			first.Name, first.From.Name = "first", "gone"
			f.of.Spec.Secrets = append([]tenantapi.TemplateSecret{first}, f.of.Spec.Secrets...)
		}, "there is no Secret platform/gone"},
		"another Secret in its place": {func(f *fakeSpace) { f.of.Spec.Secrets[0].From.Name = "gone" },
			"there is no Secret platform/gone"},
		"another name of it": {func(f *fakeSpace) {
			f.of.Spec.Secrets[0].Name, f.of.Spec.Secrets[0].From.Name = "renamed", "gone"
		}, "there is no Secret platform/gone"},
		"one more Secret": {func(f *fakeSpace) {
			f.of.Spec.Secrets = append([]tenantapi.TemplateSecret{{Namespace: "default", Name: "a",
				From: tenantapi.TemplateSecretSource{Namespace: "platform", Name: "other"}}}, f.of.Spec.Secrets...)
		}, "Secret default/a: there is no Secret platform/other"},
	} {
		f, c2 := newFakeSpace(t)
		f.copies()
		f.putSource(source, "b2xk")
		if err := c2.reconcile(t.Context(), "t"); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		c.breaks(f)
		for _, word := range []string{"bmV3", "bmV4"} { // the second time, the status says that it failed
			f.putSource(source, word)
			err := c2.reconcile(t.Context(), "t")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", name, err)
			}
			if is := f.objects[secrets+"registry"]; is == nil || data(is)["k"] != word {
				t.Errorf("%s: %s: %v", name, word, is)
			}
		}
		delete(f.refuse, "/api/v1/tenants/t")
		delete(f.objects, source)
		if err := c2.reconcile(t.Context(), "t"); err == nil || name != "another Secret in its place" &&
			!strings.Contains(f.tenant.Status.Conditions[1].Message, "there is no Secret platform/registry") {
			t.Errorf("%s: it is gone: %v, %+v", name, err, f.tenant.Status.Conditions)
		}
	}
}

// TestWaitingTenantsSayWhatIsNotCurrent: a tenant that waits does not say that it has all while a Secret of it is not
// as it is now, and says so again afterwards.
func TestWaitingTenantsSayWhatIsNotCurrent(t *testing.T) {
	f, c := newFakeSpace(t)
	f.copies()
	f.putSource(source, "b2xk")
	is := func(what string, fails bool, reason, message string) {
		t.Helper()
		err := c.reconcile(t.Context(), "t")
		got := f.tenant.Status.Conditions[1]
		if (err != nil) != fails || got.Reason != reason || !strings.Contains(got.Message, message) ||
			(got.Status == metav1.ConditionTrue) == fails || f.tenant.Status.Template.Generation != 1 {
			t.Errorf("%s: %v, %+v", what, err, got)
		}
	}
	is("made", false, tenantapi.ReasonApplied, "generation 1")
	f.of.Generation = 2
	delete(f.objects, source)
	is("the source is gone", true, tenantapi.ReasonNotCurrent, "there is no Secret platform/registry")
	f.putSource(source, "bmV3")
	is("it is back", false, tenantapi.ReasonApplied, "generation 1")
}

// TestCopiesThatCouldNotBeNoted: a copy that was made stays, also if the status could not say so.
func TestCopiesThatCouldNotBeNoted(t *testing.T) {
	f, c := newFakeSpace(t)
	f.copies()
	f.putSource(source, "b2xk")
	if err := c.reconcile(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	f.of.Generation = 2
	delete(f.objects, secrets+"registry")
	f.refuse["/status"] = http.StatusConflict
	if err := c.reconcile(t.Context(), "t"); !errors.Is(err, errSuperseded) {
		t.Fatalf("the conflict is %v", err)
	}
	made := f.objects[secrets+"registry"].GetUID()
	delete(f.refuse, "/status")
	if err := c.reconcile(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	if is := f.objects[secrets+"registry"]; is == nil || is.GetUID() != made ||
		f.tenant.Status.Template.Objects[0].UID != made {
		t.Errorf("made as %s, it is %v; the status has %+v", made, is, f.tenant.Status.Template)
	}
}

// TestCopiesOfAnotherType: no object of the tenant has a copy stay that cannot change: not one of the name that one
// could try, and not a quota without room.
func TestCopiesOfAnotherType(t *testing.T) {
	for name, full := range map[string]bool{"occupied": false, "full": true} {
		f, c := newFakeSpace(t)
		f.copies()
		f.putSource(source, "b2xk")
		f.objects[source].Object["type"] = "Opaque"
		if err := c.reconcile(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		f.put(secrets+manager, "theirs", nil)
		f.objects[secrets+manager].Object["type"] = "theirs"
		f.full = full
		f.putSource(source, "bmV3")
		f.objects[source].Object["type"] = "example.com/other"
		err := c.reconcile(t.Context(), "t")
		if is := f.objects[secrets+"registry"]; err != nil || is == nil || data(is)["k"] != "bmV3" {
			t.Errorf("%s: %v, %v", name, err, is)
		}
	}
}

// TestFirstAccessAwakensTenants: a list of all tenants is made when a template gets its first access, and goes on
// where it was.
func TestFirstAccessAwakensTenants(t *testing.T) {
	f, c := newFakeSpace(t)
	f.tenant.Status.Conditions = []metav1.Condition{tenantapi.DormantCondition(metav1.Now())}
	f.pages = 2
	lists := func(what string, fails bool, want ...string) {
		t.Helper()
		f.lists = nil
		if err := c.sleepers.awaken(t.Context(), "gold"); (err != nil) != fails || !slices.Equal(f.lists, want) {
			t.Errorf("%s: %v, %q", what, err, f.lists)
		}
	}
	lists("no access", false)
	f.gives("flux")
	f.refuse["/status"] = http.StatusInternalServerError
	lists("the first page fails", true, "")
	delete(f.refuse, "/status")
	lists("again", false, "", "x")
	if f.tenant.Dormant() {
		t.Error("it is dormant")
	}
	f.of.Generation = 2
	lists("changed", false)
	f.of.Spec.Access = nil
	lists("none", false)
	f.gives("flux")
	lists("the first again", false, "", "x")
	is := c.sleepers.awake["gold"]
	is.done, is.from = false, "x"
	lists("in the middle", false, "x")
}

// TestChangedSources: those are looked at that have a copy.
func TestChangedSources(t *testing.T) {
	f, c := newFakeSpace(t)
	f.copies()
	for n, name := range []string{"other", "registry"} {
		c.sourceChanged(tenantapi.TemplateSecretSource{Namespace: "platform", Name: name})
		if got := c.queue.Len(); got != n {
			t.Errorf("%s: %d tenants", name, got)
		}
	}
}

// gives has the template have an access.
func (f *fakeSpace) gives(user string) {
	f.of.Spec.Access = []tenantapi.TemplateAccess{{Name: "flux-$(tenant.name)", Spec: tenantapi.TenantAccessSpec{
		Tenant: "$(tenant.name)", User: user,
		Secret: tenantapi.AccessSecret{Namespace: "flux", Name: "$(tenant.name)"}}}}
}

const access = ofAccesses + "flux-t"

// user is whom the access is for.
func user(o *unstructured.Unstructured) string {
	if o == nil {
		return ""
	}
	user, _, _ := unstructured.NestedString(o.Object, "spec", "user") //nolint:errcheck // it is a text
	return user
}

// TestAccessesOfTemplates: they are made for the tenant, stay as the template says, and go with it.
func TestAccessesOfTemplates(t *testing.T) {
	f, c := newFakeSpace(t)
	f.gives("flux")
	reconcile := func() {
		t.Helper()
		if err := c.reconcile(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
	}
	reconcile()
	is := f.objects[access]
	if user(is) != "flux" || is.GetLabels()["a4s.io/tenant-template"] != "gold" ||
		!metav1.IsControlledBy(is, f.tenant) || !slices.Equal(f.tenant.Status.Template.Access, []string{"flux-t"}) {
		t.Fatalf("%v, %+v", is, f.tenant.Status.Template)
	}
	if err := unstructured.SetNestedField(is.Object, "mallory", "spec", "user"); err != nil {
		t.Fatal(err)
	}
	if reconcile(); user(f.objects[access]) != "flux" {
		t.Errorf("changed: %v", f.objects[access])
	}
	f.of.Spec.Access = nil
	if reconcile(); f.objects[access] != nil || len(f.tenant.Status.Template.Access) > 0 {
		t.Errorf("taken off: %v, %+v", f.objects[access], f.tenant.Status.Template)
	}
	f.gives("flux")
	reconcile()
	f.tenant.Spec.Template = ""
	if reconcile(); f.objects[access] != nil || f.tenant.Status.Template != nil {
		t.Errorf("the template left: %v, %+v", f.objects[access], f.tenant.Status.Template)
	}
}

// TestAccessesEndAtOnce: who shall get in no more does not until a tenant has its turn, nor until it can have the rest
// of the template.
func TestAccessesEndAtOnce(t *testing.T) {
	for name, breaks := range map[string]func(*fakeSpace){
		"waiting": func(f *fakeSpace) { f.of.Generation = 2 },
		"an object fails": func(f *fakeSpace) {
			f.says(t, configMap("c"))
			f.refuse["/configmaps/c"] = http.StatusUnprocessableEntity
		},
		"the labels fail": func(f *fakeSpace) { f.refuse["/api/v1/tenants/t"] = http.StatusUnprocessableEntity },
		"the space is gone": func(f *fakeSpace) {
			f.tenant.Status.Conditions[0].Status = metav1.ConditionFalse
		},
		"it leaves, with labels that fail": func(f *fakeSpace) {
			f.tenant.Spec.Template = ""
			f.refuse["/api/v1/tenants/t"] = http.StatusUnprocessableEntity
		},
	} {
		f, c := newFakeSpace(t)
		f.gives("flux")
		f.of.Spec.Access[0].Spec.Role = "edit"
		if err := c.reconcile(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		breaks(f)
		if f.tenant.Spec.Template != "" {
			f.of.Spec.Access[0].Spec.Role = ""
			_ = c.reconcile(t.Context(), "t") //nolint:errcheck // it may fail
			if role, ok, _ := unstructured.NestedString(f.objects[access].Object, "spec", "role"); ok && role != "" {
				t.Errorf("%s: it has the role %s yet", name, role)
			}
		}
		f.of.Spec.Access = nil
		_ = c.reconcile(t.Context(), "t") //nolint:errcheck // it may fail
		if is := f.objects[access]; is != nil {
			t.Errorf("%s: there is %v", name, is)
		}
	}
}

// TestAccessesAreKnownUntilTheyEnd: one that could not be deleted when its tenant left the template is tried again.
func TestAccessesAreKnownUntilTheyEnd(t *testing.T) {
	f, c := newFakeSpace(t)
	f.gives("flux")
	if err := c.reconcile(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	f.tenant.Spec.Template = ""
	f.refuse[access] = http.StatusInternalServerError
	if err := c.reconcile(t.Context(), "t"); err == nil || f.objects[access] == nil {
		t.Fatalf("it could be deleted: %v", err)
	}
	delete(f.refuse, access)
	err := c.reconcile(t.Context(), "t")
	if err != nil || f.objects[access] != nil || f.tenant.Status.Template != nil {
		t.Errorf("there is %v, and the status has %+v: %v", f.objects[access], f.tenant.Status.Template, err)
	}
}

// TestAccessesBesideWrongOnes: one that the template has no more ends although others cannot be made.
func TestAccessesBesideWrongOnes(t *testing.T) {
	f, c := newFakeSpace(t)
	f.gives("flux")
	if err := c.reconcile(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	a, b := f.of.Spec.Access[0], f.of.Spec.Access[0]
	a.Name, b.Name = "t-$(tenant.name)", "$(tenant.name)-t" // both are t-t
	f.of.Spec.Access = []tenantapi.TemplateAccess{a, b}
	if err := c.reconcile(t.Context(), "t"); err == nil || f.objects[access] != nil {
		t.Errorf("there is %v: %v", f.objects[access], err)
	}
}

// TestAccessesOfAnOlderTemplate: a server that knows the template as it was before takes nothing away.
func TestAccessesOfAnOlderTemplate(t *testing.T) {
	f, c := newFakeSpace(t)
	f.of.Generation = 5
	f.gives("flux")
	if err := c.reconcile(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	f.of.Generation, f.of.Spec.Access = 4, nil
	if err := c.reconcile(t.Context(), "t"); err != nil || f.objects[access] == nil {
		t.Errorf("there is %v: %v", f.objects[access], err)
	}
}

// TestChangedTemplatesTellWhoHasAccess: of a changed template, tenants with accesses are looked at once before their
// turn.
func TestChangedTemplatesTellWhoHasAccess(t *testing.T) {
	f, c := newFakeSpace(t)
	f.gives("flux")
	if err := c.reconcile(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	f.of.Generation = 2
	for i, want := range []int{1, 0} {
		c.told.tell(c.queue, f.of, c.all())
		if got := c.queue.Len(); got != want {
			t.Errorf("%d: %d tenants", i, got)
		}
		if want > 0 {
			name, _ := c.queue.Get()
			c.queue.Done(name)
		}
	}
}

// TestAccessesHaveNothingBesides: what the template does not say is not there.
func TestAccessesHaveNothingBesides(t *testing.T) {
	f, c := newFakeSpace(t)
	f.gives("flux")
	for range 2 {
		if err := c.reconcile(t.Context(), "t"); err != nil {
			t.Fatal(err)
		}
		if role, ok, _ := unstructured.NestedString(f.objects[access].Object, "spec", "role"); ok && role != "" {
			t.Errorf("somebody's role %s stays", role)
		}
		if err := unstructured.SetNestedField(f.objects[access].Object, "cluster-admin", "spec", "role"); err != nil {
			t.Fatal(err)
		}
	}
	// Whom it is for cannot change: another one takes its place.
	was := f.objects[access].GetUID()
	f.gives("argocd")
	if err := c.reconcile(t.Context(), "t"); err != nil {
		t.Fatal(err)
	}
	if is := f.objects[access]; user(is) != "argocd" || is.GetUID() == was {
		t.Errorf("of somebody else: %v", is)
	}
}

// TestAccessesOfOthersStay: a name is no right.
func TestAccessesOfOthersStay(t *testing.T) {
	f, c := newFakeSpace(t)
	f.gives("flux")
	owner, err := json.Marshal(metav1.NewControllerRef(f.tenant, tenantapi.GroupVersion().WithKind(tenantapi.Kind)))
	if err != nil {
		t.Fatal(err)
	}
	for name, uid := range map[string]string{"of nobody": "", "of another tenant of the name": "another"} {
		var ref map[string]any
		if err := json.Unmarshal(owner, &ref); err != nil {
			t.Fatal(err)
		}
		more := map[string]any{"labels": map[string]any{"a4s.io/tenant-template": "gold"}}
		if ref["uid"] = uid; uid != "" {
			more["ownerReferences"] = []any{ref}
		}
		f.put(access, "x", more)
		f.objects[access].Object["kind"] = tenantapi.AccessKind
		err := c.reconcile(t.Context(), "t")
		if err == nil || !strings.Contains(err.Error(), "TenantAccess flux-t: there is one of this name") {
			t.Errorf("%s: %v", name, err)
		}
		f.of.Spec.Access = nil
		err = c.reconcile(t.Context(), "t")
		if is := f.objects[access]; err != nil || is == nil || user(is) != "" {
			t.Errorf("%s, taken off: %v, %v", name, err, is)
		}
		f.gives("flux")
	}
}
