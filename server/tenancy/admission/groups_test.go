package admission

import (
	"reflect"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	schedulinglisters "k8s.io/client-go/listers/scheduling/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/api/legacyscheme"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

func classes(t *testing.T) schedulinglisters.PriorityClassLister {
	t.Helper()
	never := corev1.PreemptNever
	store := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, class := range []*schedulingv1.PriorityClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000},
		{ObjectMeta: metav1.ObjectMeta{Name: "low"}, Value: -1, PreemptionPolicy: &never},
	} {
		if err := store.Add(class); err != nil {
			t.Fatal(err)
		}
	}
	return schedulinglisters.NewPriorityClassLister(store)
}

var aboutPriority = regexp.MustCompile(`(?i)priority|preemption`)

// eachPriority calls visit for each field of a type whose name is about priority,
// outside of pods, with the value at that place made.
func eachPriority(v reflect.Value, path string, above []reflect.Type, visit func(path string, in reflect.Value,
	i int)) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		eachPriority(v.Elem(), path, above, visit)
		v.SetZero()
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		eachPriority(v.Index(0), path, above, visit)
		v.SetZero()
	case reflect.Struct:
		for _, t := range above {
			if t == v.Type() {
				return
			}
		}
		if v.Type() == reflect.TypeFor[corev1.PodSpec]() || v.Type() == reflect.TypeFor[metav1.ObjectMeta]() {
			return
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() {
				continue
			}
			name := jsonName(f)
			at := strings.TrimPrefix(path+"."+name, ".")
			if aboutPriority.MatchString(name) {
				visit(at, v, i)
				continue
			}
			eachPriority(v.Field(i), at, append(above, v.Type()), visit)
		}
	}
}

// TestPrioritiesOfEveryKindAreJudged finds every field about priority of every kind
// that tenants write, in every version: each is judged, or is of a pod and judged
// there.
func TestPrioritiesOfEveryKindAreJudged(t *testing.T) {
	g := &guard{kinds: kinds.New(), classes: classes(t), groups: prioritizedKinds(), permits: permits{annotated{}}}
	found := map[string]bool{}
	for _, row := range kinds.FieldRows() {
		for _, version := range legacyscheme.Scheme.PrioritizedVersionsForGroup(row.Group) {
			kind := version.WithKind(row.Kind)
			if !legacyscheme.Scheme.Recognizes(kind) {
				continue
			}
			object, err := legacyscheme.Scheme.New(kind)
			if err != nil {
				t.Fatal(err)
			}
			root := reflect.ValueOf(object).Elem()
			eachPriority(root, "", nil, func(path string, in reflect.Value, i int) {
				field := in.Field(i)
				found[row.Kind+" "+path] = true
				class := in.FieldByName("PriorityClassName")
				if !class.IsValid() {
					t.Errorf("%s of %s has no class beside it: decide how it is judged", path, kind)
					return
				}
				class.SetString("high")
				defer class.SetZero()
				attr := update(t, kind, internal(t, kind, object), nil, "")
				for _, byTenant := range []bool{true, false} { // whoever makes it from a tenant's template
					if err := g.check(t.Context(), "t1", byTenant, attr); err == nil ||
						!strings.Contains(err.Error(), "spec.allow.priorityClasses") {
						t.Errorf("%s of %s: %v", path, kind, err)
					}
				}
				field.SetZero()
				class.SetZero()
				fill(field)
				if jsonName(in.Type().Field(i)) == "preemptionPolicy" {
					class.SetString("low")
					defer class.SetZero()
				}
				attr = update(t, kind, internal(t, kind, object), nil, "")
				if err := g.check(t.Context(), "t1", true, attr); err == nil {
					t.Errorf("%s of %s has a value of its own, and it is taken", path, kind)
				}
				field.SetZero()
			})
		}
	}
	for _, want := range []string{"PodGroup spec.priorityClassName", "Workload spec.podGroupTemplates.priority",
		"Workload spec.compositePodGroupTemplates.priorityClassName", "CompositePodGroup spec.preemptionPolicy"} {
		if !found[want] {
			t.Errorf("%s was not found: the test does not test, of %v", want, found)
		}
	}
}

// TestPrioritiesOfGroups: with the allowance, and of what does not displace anybody.
func TestPrioritiesOfGroups(t *testing.T) {
	kind := schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1beta1", Kind: "PodGroup"}
	for _, c := range []struct {
		name, body string
		tenant     annotated
		ok         bool
	}{
		{"none", `{}`, nil, true},
		{"a class that displaces others", `{"priorityClassName":"high"}`, nil, false},
		{"one that is allowed", `{"priorityClassName":"high","priority":1000}`,
			annotated{allowances.PriorityClasses: "high"}, true},
		{"another than is allowed", `{"priorityClassName":"low"}`, annotated{allowances.PriorityClasses: "high"},
			false},
		{"a low class", `{"priorityClassName":"low","priority":-1,"preemptionPolicy":"Never"}`, nil, true},
		{"a low class with a high number", `{"priorityClassName":"low","priority":5}`, nil, false},
		{"a low class that displaces", `{"priorityClassName":"low","preemptionPolicy":"PreemptLowerPriority"}`,
			nil, false},
		{"a number without a class", `{"priority":1}`, nil, false},
		{"the number of no class", `{"priority":0}`, nil, true},
		{"the cluster's own class", `{"priorityClassName":"system-node-critical"}`,
			annotated{allowances.PriorityClasses: "*"}, false},
	} {
		g := &guard{kinds: kinds.New(), classes: classes(t), groups: prioritizedKinds(), permits: permits{c.tenant}}
		object, _, err := legacyscheme.Codecs.UniversalDeserializer().Decode([]byte(
			`{"apiVersion":"scheduling.k8s.io/v1beta1","kind":"PodGroup","spec":`+c.body+`}`), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		now := internal(t, kind, object)
		if err := g.check(t.Context(), "t1", true, update(t, kind, now, nil, "")); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := g.check(t.Context(), "t1", true, update(t, kind, now, now.DeepCopyObject(), "")); err != nil {
			t.Errorf("%s, which was there: %v", c.name, err)
		}
	}
}
