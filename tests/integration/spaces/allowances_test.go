package spaces_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
)

// heard are the warnings that a client was told.
type heard []string

// HandleWarningHeader implements rest.WarningHandler.
func (h *heard) HandleWarningHeader(_ int, _, text string) { *h = append(*h, text) }

// withHostPID wants more than baseline.
const withHostPID = `"hostPID":true,`

// mayHostPID waits until it may or may not.
func (s *space) mayHostPID(t *testing.T, may bool) {
	t.Helper()
	eventually(t, s.name+" to have hostPID or not", func(context.Context) (bool, error) {
		code, _, _ := s.makesPod(t, asDryRun, podBody("", withHostPID))
		return code == http.StatusCreated == may && (may || code == http.StatusForbidden), nil
	})
}

// TestAllowancesOfATenant: a field goes before the annotation that it has taken the place of, which goes on working,
// and whoever writes that is told; what holds is shown; no tenant writes any of it.
func TestAllowancesOfATenant(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	s := p.bareTenant(t, "t1")
	s.mayHostPID(t, false)
	told := &heard{}
	cfg := rest.CopyConfig(p.Admin)
	cfg.WarningHandler = told
	tenants, err := tenantapi.NewClient(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	patch := func(body string) error {
		*told = nil
		_, err := tenants.Patch(t.Context(), "t1", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	shows := func(level string, drivers ...string) {
		t.Helper()
		eventually(t, level+" to be shown", func(ctx context.Context) (bool, error) {
			got, err := tenants.Get(ctx, "t1", metav1.GetOptions{})
			if err != nil {
				return false, err
			}
			var shown []string
			if e := got.Status.Effective; e == nil || e.PodSecurity != level {
				return false, nil
			} else if e.Allow != nil {
				shown = e.Allow.CSIDrivers
			}
			return slices.Equal(shown, drivers), nil
		})
	}
	shows("baseline")

	if err := patch(`{"metadata":{"annotations":{"a4s.io/pod-security":"privileged",` +
		`"a4s.io/csi-drivers":"csi.example.com"}}}`); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"metadata.annotations[a4s.io/pod-security]: deprecated; use spec.podSecurity instead",
		"metadata.annotations[a4s.io/csi-drivers]: deprecated; use spec.allow.csiDrivers instead",
	} {
		if !slices.Contains(*told, want) {
			t.Errorf("%q is not among %q", want, *told)
		}
	}
	s.mayHostPID(t, true)
	shows("privileged", "csi.example.com")
	if err := patch(`{"spec":{"podSecurity":"baseline","allow":{"csiDrivers":["none"]}}}`); err != nil {
		t.Fatal(err)
	}
	if len(*told) > 0 {
		t.Errorf("who writes fields hears %q", *told)
	}
	s.mayHostPID(t, false)
	shows("baseline", "none")
	if err := patch(`{"spec":{"podSecurity":null,"allow":null}}`); err != nil {
		t.Fatal(err)
	}
	s.mayHostPID(t, true)
	for field, body := range map[string]string{
		"spec.podSecurity":                `{"podSecurity":"strict"}`,
		"spec.allow.hostPorts[1]":         `{"allow":{"hostPorts":["80","http"]}}`,
		"spec.allow.priorityClasses[0]":   `{"allow":{"priorityClasses":["*","high"]}}`,
		"spec.allow.runtimeClasses":       `{"allow":{"runtimeClasses":["none"]}}`,
		"spec.allow.loadBalancerPorts[0]": `{"allow":{"loadBalancerPorts":["false"]}}`,
	} {
		if err := patch(`{"spec":` + body + `}`); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
	for _, path := range []string{"/api/v1/tenants/t1", "/api/v1/tenants/t1/status", "/api/v1/tenanttemplates/x"} {
		code, answer := do(t, s.config, http.MethodPatch, path, `{"spec":{"podSecurity":"privileged"},`+
			`"status":{"effective":{"podSecurity":"privileged"}}}`, []string{asMergePatch})
		if code != http.StatusForbidden && code != http.StatusNotFound {
			t.Errorf("the tenant on %s: %d %.300s", path, code, answer)
		}
	}
	// What an administrator writes into the status is nothing.
	if _, err := tenants.Patch(t.Context(), "t1", types.MergePatchType,
		[]byte(`{"status":{"effective":{"podSecurity":"restricted"}}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	shows("privileged", "csi.example.com")
}

// TestWhatATemplateAllows: what a template says of security, allowances, nodes, images and protection holds for its
// tenants where they say nothing, at once when it changes, and for nobody else.
func TestWhatATemplateAllows(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	p := start(t, nil)
	p.pooled(t, "n1", "gold")
	p.pooled(t, "n2", "rest")
	tenants, err := tenantapi.NewClient(p.Admin, nil)
	if err != nil {
		t.Fatal(err)
	}
	for field, spec := range map[string]string{
		"spec.podSecurity":             `{"podSecurity":"strict"}`,
		"spec.allow.hostPorts[0]":      `{"allow":{"hostPorts":["http"]}}`,
		"spec.images[0]":               `{"images":["nginx"]}`,
		"spec.scheduling.nodeSelector": `{"scheduling":{"exclusive":true}}`,
	} {
		code, answer := do(t, p.Admin, http.MethodPost, "/api/v1/tenanttemplates",
			`{"metadata":{"name":"gold"},"spec":`+spec+`}`, nil)
		if code != http.StatusUnprocessableEntity || !strings.Contains(answer, field) {
			t.Errorf("%s: %d %.300s", field, code, answer)
		}
	}
	post(t, p.Admin, "/api/v1/tenanttemplates", `{"metadata":{"name":"gold"},"spec":{"podSecurity":"privileged",`+
		`"images":["registry.example.com"],"deletionProtection":true,"allow":{"storageClasses":["fast"]},`+
		`"scheduling":{"nodeSelector":{"pool":"gold"},"exclusive":true}}}`)
	change := func(spec string) {
		t.Helper()
		if code, answer := do(t, p.Admin, http.MethodPatch, "/api/v1/tenanttemplates/gold", `{"spec":`+spec+`}`,
			[]string{asMergePatch}); code != http.StatusOK {
			t.Fatalf("%s: %d %.300s", spec, code, answer)
		}
	}
	const image = "registry.example.com/app"
	a, b, c := p.bareTenant(t, "a"), p.bareTenant(t, "b"), p.bareTenant(t, "c")
	for _, s := range []*space{a, b} {
		if err := p.specify(t, s.name, `{"template":"gold"}`); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the template to hold for "+s.name, func(context.Context) (bool, error) {
			code, answer, _ := s.makesPod(t, asDryRun, podBody("", withHostPID))
			if code == http.StatusCreated {
				return false, nil
			}
			return strings.Contains(answer, "this space has images of registry.example.com"), nil
		})
		pod := strings.Replace(podBody("", withHostPID), `"image":"i"`, `"image":"`+image+`"`, 1)
		code, answer, made := s.makesPod(t, "", pod)
		if code != http.StatusCreated {
			t.Fatalf("%s: %d %.300s", s.name, code, answer)
		}
		s.comesTo(t, made.Name, "n1") // both have the node that is for tenants of the template alone
		if code, answer := do(t, s.config, http.MethodPost, inClaims+asDryRun,
			`{"metadata":{"name":"x"},`+claimSpec(`,"storageClassName":"slow"`)+`}`,
			nil); code != http.StatusForbidden || !strings.Contains(answer, "this space's: fast") {
			t.Errorf("%s: %d %.300s", s.name, code, answer)
		}
	}
	c.mayHostPID(t, false)
	c.comesTo(t, c.newPod(t, "").Name, "n2")
	waiting := c.newPod(t, `"nodeSelector":{"pool":"gold"},`)
	c.waitsFor(t, waiting.Name, isSetAside)

	// What a Tenant says itself goes before, field by field.
	if err := p.specify(t, "a", `{"images":["*"],"podSecurity":"baseline","scheduling":{}}`); err != nil {
		t.Fatal(err)
	}
	a.mayHostPID(t, false)
	a.comesTo(t, a.newPod(t, "").Name, "n2")
	var e *tenantapi.EffectiveSpec
	defer func() {
		if t.Failed() {
			t.Logf("what holds for a: %+v", e)
		}
	}()
	eventually(t, "it to be shown what holds for a", func(ctx context.Context) (bool, error) {
		got, err := tenants.Get(ctx, "a", metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		e = got.Status.Effective
		return e != nil && e.PodSecurity == "baseline" && len(e.Images) == 0 && e.Allow != nil &&
			slices.Equal(e.Allow.StorageClasses, []string{"fast"}), nil
	})

	// A change holds at once, for pods that wait too.
	change(`{"scheduling":{"exclusive":null},"podSecurity":"baseline","images":null}`)
	c.comesTo(t, waiting.Name, "n1")
	b.mayHostPID(t, false)
	eventually(t, "the list of images to be gone", func(context.Context) (bool, error) {
		code, _, _ := b.makesPod(t, asDryRun, podBody("", ""))
		return code == http.StatusCreated, nil
	})
	p.protects(t, tenants)
}

// protects: new tenants have the protection of the template unless they say another.
func (p *plane) protects(t *testing.T, tenants *tenantapi.Client) {
	t.Helper()
	for name, says := range map[string]*bool{"silent": nil, "free": new(false)} {
		if _, err := tenants.Create(t.Context(), &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: tenantapi.TenantSpec{Template: "gold", DeletionProtection: says}},
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		err := tenants.Delete(t.Context(), name, metav1.DeleteOptions{})
		if protected := apierrors.HasStatusCause(err, tenantapi.CauseDeletionProtected); protected != (says == nil) ||
			err != nil && !protected {
			t.Errorf("deleting %s: %v", name, err)
		}
	}
	// Those that were there before do not change.
	if got, err := tenants.Get(t.Context(), "b", metav1.GetOptions{}); err != nil || got.Protected() {
		t.Errorf("%+v, %v", got.Spec, err)
	}
}
