package registry

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	genericregistry "k8s.io/apiserver/pkg/registry/generic/registry"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/warning"

	"github.com/a4s-io/a4s/internal/tenantapi"
)

// oneTemplate is a storage of the template gold.
type oneTemplate struct{ storage.Interface }

func (oneTemplate) Get(_ context.Context, key string, _ storage.GetOptions, out runtime.Object) error {
	if key != "/gold" {
		return storage.NewKeyNotFoundError(key, 0)
	}
	out.(*tenantapi.TenantTemplate).Name = "gold" //nolint:errcheck // the test's own type
	return nil
}

// Delete asks whether it may, as a datastore does.
func (s oneTemplate) Delete(ctx context.Context, _ string, out runtime.Object, _ *storage.Preconditions,
	validate storage.ValidateObjectFunc, _ runtime.Object, _ storage.DeleteOptions) error {
	out.(*tenantapi.TenantTemplate).Name = "gold" //nolint:errcheck // the test's own type
	return validate(ctx, out)
}

type said []string

func (s *said) AddWarning(_, text string) { *s = append(*s, text) }

func gold(tenants *tenantapi.TenantList) *templateREST {
	strategy := templateStrategy{}
	return &templateREST{
		Store: &genericregistry.Store{
			NewFunc: func() runtime.Object { return &tenantapi.TenantTemplate{} },
			KeyFunc: func(_ context.Context, name string) (string, error) { return "/" + name, nil },
			ObjectNameFunc: func(obj runtime.Object) (string, error) {
				return obj.(*tenantapi.TenantTemplate).Name, nil //nolint:errcheck // the test's own type
			},
			DeleteStrategy: strategy, Storage: genericregistry.DryRunnableStorage{Storage: oneTemplate{}},
		},
		tenants: func(_ context.Context, o *metainternalversion.ListOptions) (runtime.Object, error) {
			out := &tenantapi.TenantList{ListMeta: tenants.ListMeta}
			for _, t := range tenants.Items {
				if o.FieldSelector.Matches(selectable(&t)) {
					out.Items = append(out.Items, t)
				}
			}
			return out, nil
		},
	}
}

// TestTemplatesThatTenantsHaveStay, and the refusal says how many there are, and how to find them.
func TestTemplatesThatTenantsHaveStay(t *testing.T) {
	tenant := func(name, template string) tenantapi.Tenant {
		return tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: tenantapi.TenantSpec{Template: template}}
	}
	list := &tenantapi.TenantList{Items: []tenantapi.Tenant{tenant("a", "silver"), tenant("b", "gold"),
		tenant("c", "gold"), tenant("d", "")}}
	deletes := func(list *tenantapi.TenantList) error {
		_, _, err := gold(list).Delete(as(), "gold", rest.ValidateAllObjectFunc, &metav1.DeleteOptions{})
		return err
	}
	err := deletes(list)
	if !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "have it: 2, b for one") ||
		!strings.Contains(err.Error(), "--field-selector spec.template=gold") {
		t.Errorf("with two tenants: %v", err)
	}
	list.Continue = "more"
	if err := deletes(list); !apierrors.IsConflict(err) || !strings.Contains(err.Error(), "more than 2") {
		t.Errorf("with more: %v", err)
	}
	if err := deletes(&tenantapi.TenantList{Items: list.Items[:1]}); err != nil {
		t.Errorf("with none: %v", err)
	}
	r := gold(list)
	r.tenants = func(context.Context, *metainternalversion.ListOptions) (runtime.Object, error) {
		return nil, errors.New("away")
	}
	if _, _, err := r.Delete(as(), "gold", nil, &metav1.DeleteOptions{}); err == nil {
		t.Error("it is deleted although nobody knows its tenants")
	}
	if _, ok := fields.OneTermEqualSelector(tenantapi.SelectTemplate, "gold").RequiresExactMatch(
		"spec.template"); !ok {
		t.Error("the message names another field")
	}
}

// TestUnknownTemplatesAreWarnedOf when a Tenant is made and when it gets another one.
func TestUnknownTemplatesAreWarnedOf(t *testing.T) {
	r := gold(&tenantapi.TenantList{})
	for name, tc := range map[string]struct {
		was, is string
		warned  bool
	}{
		"wrong": {"gold", "glod", true}, "first": {"", "glod", true}, "known": {"", "gold", false},
		"as it was": {"glod", "glod", false}, "off": {"gold", "", false},
	} {
		var warned said
		ctx := warning.WithWarningRecorder(as(), &warned)
		is, was := &tenantapi.Tenant{}, &tenantapi.Tenant{}
		is.Name, was.Name, is.Spec.Template, was.Spec.Template = "t", "t", tc.is, tc.was
		if err := r.warn(ctx, is, was); err != nil || (len(warned) == 1) != tc.warned {
			t.Errorf("%s: %q, %v", name, warned, err)
		}
	}
	var warned said
	made := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t"}, Spec: tenantapi.TenantSpec{Template: "glod"}}
	if err := r.fill(warning.WithWarningRecorder(as(), &warned), made); err != nil || len(warned) != 1 {
		t.Errorf("made: %q, %v", warned, err)
	}
}

// TestWhatIsNotKnownHereCanGo: an allowance that another version took is in nobody's way.
func TestWhatIsNotKnownHereCanGo(t *testing.T) {
	was := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	was.Spec.Allow = &tenantapi.TenantAllowances{VolumeTypes: []string{"of-tomorrow"}}
	was.Spec.PodSecurity = "of-tomorrow"
	setDefaults(was)
	is := was.DeepCopy()
	is.Finalizers = nil
	if errs := check(as(), is, was); len(errs) > 0 {
		t.Errorf("as they were: %v", errs)
	}
	is.Spec.PodSecurity = "mine"
	if errs := check(as(), is, was); len(errs) != 1 || errs[0].Field != "spec.podSecurity" {
		t.Errorf("another level: %v", errs)
	}
	is.Spec.PodSecurity, is.Spec.Allow.VolumeTypes[0] = was.Spec.PodSecurity, "mine"
	if errs := check(as(), is, was); len(errs) != 1 || !strings.HasPrefix(errs[0].Field, "spec.allow.volumeTypes") {
		t.Errorf("another type: %v", errs)
	}
	template := &tenantapi.TenantTemplate{ObjectMeta: metav1.ObjectMeta{Name: "gold"}}
	template.Spec.Allow = was.Spec.Allow
	changed := template.DeepCopy()
	changed.Spec.AtATime = 3
	if errs := checkTemplate(as(), changed, template); len(errs) > 0 {
		t.Errorf("a template: %v", errs)
	}
}

// TestProtectionIsTakenOffByFalse, not by a manifest that never had it.
func TestProtectionIsTakenOffByFalse(t *testing.T) {
	was := &tenantapi.Tenant{ObjectMeta: metav1.ObjectMeta{Name: "t"}}
	was.Spec.DeletionProtection = new(true)
	for name, tc := range map[string]struct {
		says *bool
		want bool
	}{"absent": {nil, true}, "false": {new(false), false}, "true": {new(true), true}} {
		is := was.DeepCopy()
		is.Spec.DeletionProtection = tc.says
		prepareChanged(is, was)
		if is.Protected() != tc.want {
			t.Errorf("%s: %v", name, is.Protected())
		}
	}
}
