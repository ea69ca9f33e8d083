package tenants_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
)

// suite is what the parts of TestTenantAPI share.
type suite struct {
	*api
	admin   *rest.Config
	http    *http.Client
	typed   *tenantapi.Client // protobuf
	dynamic dynamic.ResourceInterface
}

func TestTenantAPI(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	a := serve(t)
	s := &suite{api: a, admin: a.config(a.files.Admin)}
	var err error
	if s.http, err = rest.HTTPClientFor(s.admin); err != nil {
		t.Fatal(err)
	}
	if s.typed, err = tenantapi.NewClient(s.admin, s.http); err != nil {
		t.Fatal(err)
	}
	d, err := dynamic.NewForConfig(s.admin)
	if err != nil {
		t.Fatal(err)
	}
	s.dynamic = d.Resource(tenantapi.GroupVersionResource())
	t.Run("life cycle in protobuf and JSON", s.testLifeCycle)
	t.Run("server-side apply", s.testApply)
	t.Run("refusals", s.testRefusals)
	t.Run("deletion protection", s.testProtection)
	t.Run("printer columns", s.testTable)
	t.Run("discovery", s.testDiscovery)
	t.Run("OpenAPI", s.testOpenAPI)
}

// raw gets a path with an Accept header.
func (s *suite) raw(t *testing.T, path, accept string) (*http.Response, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.admin.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", accept)
	resp, err := s.http.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

func (s *suite) testLifeCycle(t *testing.T) {
	ctx := t.Context()
	n := int64(5)
	made, err := s.typed.Create(ctx, &tenantapi.Tenant{
		ObjectMeta: metav1.ObjectMeta{Name: "t1"},
		Spec:       tenantapi.TenantSpec{Limits: &tenantapi.TenantLimits{Namespaces: &n}},
		Status:     tenantapi.TenantStatus{Phase: tenantapi.Terminating}, // is ignored
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if made.Status.Phase != tenantapi.Active || made.Generation != 1 ||
		made.Spec.CRDPolicy != tenantapi.LocalCRDFirst || len(made.Finalizers) != 1 ||
		made.Finalizers[0] != tenantapi.Finalizer {
		t.Errorf("created %+v", made)
	}
	if resp, body := s.raw(t, "/api/v1/tenants/t1", "application/vnd.kubernetes.protobuf"); resp.StatusCode !=
		http.StatusOK || !strings.HasPrefix(string(body), "k8s\x00") {
		t.Errorf("in protobuf: %d %q", resp.StatusCode, body)
	}
	w, err := s.typed.Watch(ctx,
		metav1.ListOptions{ResourceVersion: made.ResourceVersion, FieldSelector: "metadata.name=t1"})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	list, err := s.dynamic.List(ctx, metav1.ListOptions{FieldSelector: tenantapi.SelectPhase + "=Active"})
	if err != nil || len(list.Items) != 1 || list.GetKind() != "TenantList" || list.Items[0].GetKind() != "Tenant" {
		t.Fatalf("list = %+v, %v", list, err)
	}
	if v, _, _ := unstructured.NestedInt64(list.Items[0].Object, "spec", "limits", "namespaces"); v != n {
		t.Errorf("spec.limits.namespaces = %d, want %d", v, n)
	}

	made.Status.Conditions = []metav1.Condition{{Type: tenantapi.SpaceReady, Status: metav1.ConditionTrue,
		Reason: "Made", LastTransitionTime: metav1.Now()}}
	made.Status.Phase = tenantapi.Terminating
	made.Labels = map[string]string{"a": "b"}
	if made, err = s.typed.UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil || len(made.Labels) > 0 ||
		made.Status.Phase != tenantapi.Active || len(made.Status.Conditions) != 1 {
		t.Errorf("update of the status = %+v, %v", made, err)
	}
	merged, err := s.typed.Patch(ctx, "t1", types.StrategicMergePatchType,
		[]byte(`{"status":{"conditions":[{"type":"SpaceEmpty","status":"False","reason":"X","message":"",`+
			`"lastTransitionTime":"2020-01-01T00:00:00Z"}]}}`), metav1.PatchOptions{}, "status")
	if err != nil || len(merged.Status.Conditions) != 2 {
		t.Errorf("strategic merge patch of the conditions = %+v, %v", merged, err)
	}

	if err := s.typed.Delete(ctx, "t1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	got, err := s.typed.Get(ctx, "t1", metav1.GetOptions{})
	if err != nil || got.DeletionTimestamp.IsZero() || got.Status.Phase != tenantapi.Terminating {
		t.Errorf("after deletion: %+v, %v, want a terminating tenant", got, err)
	}
	if _, err := s.dynamic.Patch(ctx, "t1", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.typed.Get(ctx, "t1", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("without its finalizer: %v, want not found", err)
	}
	var last watch.Event
	for last = range w.ResultChan() {
		if last.Type != watch.Modified {
			break
		}
	}
	if last.Type != watch.Deleted || last.Object.(*tenantapi.Tenant).Name != "t1" {
		t.Errorf("the last event of the watch is %+v", last)
	}
}

func (s *suite) testApply(t *testing.T) {
	ctx := t.Context()
	apply := func(manager, spec string) (*unstructured.Unstructured, error) {
		u := &unstructured.Unstructured{}
		if err := json.Unmarshal([]byte(`{"apiVersion":"v1","kind":"Tenant","metadata":{"name":"applied"},"spec":`+
			spec+`}`), u); err != nil {
			t.Fatal(err)
		}
		return s.dynamic.Apply(ctx, "applied", u, metav1.ApplyOptions{FieldManager: manager})
	}
	if _, err := apply("one", `{"limits":{"objects":100,"requestsInFlight":7}}`); err != nil {
		t.Fatal(err)
	}
	if _, err := apply("two", `{"limits":{"objects":200}}`); !apierrors.IsConflict(err) {
		t.Errorf("another manager's value: %v, want a conflict", err)
	}
	got, err := apply("one", `{"limits":{"objects":150}}`)
	if err != nil {
		t.Fatal(err)
	}
	limits, _, err := unstructured.NestedMap(got.Object, "spec", "limits")
	if err != nil || len(limits) != 1 || limits["objects"] != int64(150) {
		t.Errorf("limits = %v, %v, want objects 150 and nothing else", limits, err)
	}
	if g := got.GetGeneration(); g != 2 {
		t.Errorf("generation %d, want 2", g)
	}
	if _, err := apply("one", `{"limits":{"object":1}}`); err == nil ||
		!strings.Contains(err.Error(), ".spec.limits.object") {
		t.Errorf("an unknown field: %v, want an error that names it", err)
	}
}

func (s *suite) testRefusals(t *testing.T) {
	ctx := t.Context()
	for name, says := range map[string]string{
		"a.b":                       "lower case letters",
		"all":                       "cannot be the name of a tenant",
		"abcdefghijklmnopqrstuvwxy": "at most 24",
	} {
		_, err := s.typed.Create(ctx, &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name}},
			metav1.CreateOptions{})
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), says) {
			t.Errorf("a tenant %q: %v, want invalid and %q", name, err, says)
		}
	}
	// The administrator is what the server itself is.
	if _, err := s.typed.Create(ctx, &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "system"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.typed.Delete(ctx, "system", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("deleting system: %v, want forbidden", err)
	}
	if err := s.typed.DeleteCollection(ctx, metav1.DeleteOptions{},
		metav1.ListOptions{}); !apierrors.IsMethodNotSupported(err) {
		t.Errorf("deleting all tenants at once: %v, want method not supported", err)
	}
	node := s.config(s.files.Scheduler)
	client, err := tenantapi.NewClient(node, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.List(ctx, metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("a list by somebody without a role for it: %v, want forbidden", err)
	}
}

// testProtection: a protected tenant stays, however its deletion is asked for, until somebody sets
// the field to false.
func (s *suite) testProtection(t *testing.T) {
	ctx := t.Context()
	if _, err := s.typed.Create(ctx, &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "kept"},
		Spec: tenantapi.TenantSpec{DeletionProtection: new(true)}},
		metav1.CreateOptions{FieldManager: "platform"}); err != nil {
		t.Fatal(err)
	}
	now, orphan := int64(0), metav1.DeletePropagationOrphan
	for name, o := range map[string]metav1.DeleteOptions{
		"plainly": {}, "at once": {GracePeriodSeconds: &now}, "as orphans": {PropagationPolicy: &orphan},
		"for a try": {DryRun: []string{metav1.DryRunAll}},
	} {
		err := s.typed.Delete(ctx, "kept", o)
		if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, tenantapi.CauseDeletionProtected) ||
			!strings.Contains(err.Error(), `"platform"`) || !strings.Contains(err.Error(), "sets it to false first") {
			t.Errorf("deleted %s: %v", name, err)
		}
	}
	// Without the finalizer, which an administrator can take off, there is nothing to wait for.
	if _, err := s.typed.Patch(ctx, "kept", types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.typed.Delete(ctx, "kept", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("deleted without its finalizer: %v", err)
	}
	if got, err := s.typed.Get(ctx, "kept", metav1.GetOptions{}); err != nil || !got.DeletionTimestamp.IsZero() ||
		got.Status.Phase != tenantapi.Active || !got.Protected() {
		t.Fatalf("what is protected is %+v, %v", got, err)
	}
	got, err := s.typed.Patch(ctx, "kept", types.MergePatchType, []byte(`{"spec":{"deletionProtection":false}}`),
		metav1.PatchOptions{})
	if err != nil || got.Protected() {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := s.typed.Delete(ctx, "kept", metav1.DeleteOptions{}); err != nil {
		t.Errorf("deleted without protection: %v", err)
	}
}

func (s *suite) testTable(t *testing.T) {
	_, body := s.raw(t, "/api/v1/tenants/system", "application/json;as=Table;v=v1;g=meta.k8s.io")
	var table metav1.Table
	if err := json.Unmarshal(body, &table); err != nil {
		t.Fatal(err)
	}
	var columns []string
	for _, c := range table.ColumnDefinitions {
		columns = append(columns, c.Name)
	}
	if strings.Join(columns, " ") != "Name Status Age Partition Protected Template" || len(table.Rows) != 1 ||
		table.Rows[0].Cells[0] != "system" || table.Rows[0].Cells[1] != "Active" {
		t.Errorf("table = %s", body)
	}
}

func (s *suite) testDiscovery(t *testing.T) {
	dc, err := discovery.NewDiscoveryClientForConfig(s.admin)
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string]func() (*metav1.APIResourceList, error){
		"aggregated": func() (*metav1.APIResourceList, error) {
			_, lists, err := dc.ServerGroupsAndResources()
			if err != nil {
				return nil, err
			}
			for _, l := range lists {
				if l.GroupVersion == "v1" {
					return l, nil
				}
			}
			return &metav1.APIResourceList{}, nil
		},
		"of the version": func() (*metav1.APIResourceList, error) { return dc.ServerResourcesForGroupVersion("v1") },
	} {
		eventually(t, "tenants in discovery, "+name, func(context.Context) (bool, error) {
			l, err := list()
			if err != nil {
				return false, err
			}
			found := map[string]metav1.APIResource{}
			for _, r := range l.APIResources {
				found[r.Name] = r
			}
			r, ok := found["tenants"]
			_, status := found["tenants/status"]
			return ok && status && r.Kind == "Tenant" && r.SingularName == "tenant" && !r.Namespaced &&
				len(r.ShortNames) == 1 && r.ShortNames[0] == "te" &&
				len(found["namespaces"].ShortNames) == 1, nil
		})
	}
}

// testOpenAPI looks for what kubectl explain and server-side apply read.
func (s *suite) testOpenAPI(t *testing.T) {
	type schema struct {
		Properties map[string]struct {
			Description string
			Enum        []string
		}
		Kinds []struct{ Group, Version, Kind string } `json:"x-kubernetes-group-version-kind"`
	}
	var v2 struct{ Definitions map[string]schema }
	var v3 struct {
		Components struct{ Schemas map[string]schema }
	}
	eventually(t, "tenants in OpenAPI", func(context.Context) (bool, error) {
		_, body := s.raw(t, "/openapi/v2", "application/json")
		if err := json.Unmarshal(body, &v2); err != nil {
			return false, err
		}
		_, body = s.raw(t, "/openapi/v3/api/v1", "application/json")
		if err := json.Unmarshal(body, &v3); err != nil {
			return false, err
		}
		return len(v2.Definitions) > 0 && len(v3.Components.Schemas) > 0, nil
	})
	for version, schemas := range map[string]map[string]schema{"v2": v2.Definitions, "v3": v3.Components.Schemas} {
		tenant := schemas[tenantapi.Tenant{}.OpenAPIModelName()]
		if len(tenant.Kinds) != 1 || tenant.Kinds[0] != struct{ Group, Version, Kind string }{"", "v1", "Tenant"} ||
			tenant.Properties["spec"].Description == "" {
			t.Errorf("%s: the model of tenants is %+v", version, tenant)
		}
		if policy := schemas[tenantapi.TenantSpec{}.OpenAPIModelName()].
			Properties["crdPolicy"]; len(policy.Enum) != 3 {
			t.Errorf("%s: the policy is %+v", version, policy)
		}
		for name := range schemas {
			for _, k := range schemas[name].Kinds {
				if strings.HasPrefix(k.Version, "_") {
					t.Errorf("%s: %s shows the internal version", version, name)
				}
			}
		}
	}
}
