package admission

import (
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	core "k8s.io/kubernetes/pkg/apis/core"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// fill sets v to something else than nothing.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("example.com/x")
	case reflect.Int64, reflect.Int32, reflect.Int:
		v.SetInt(7)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("cpu").Convert(v.Type().Key()), reflect.New(v.Type().Elem()).Elem())
	case reflect.Struct:
		if v.NumField() > 0 && v.Field(0).CanSet() {
			fill(v.Field(0))
		}
	}
}

// TestTenantsWriteTheirPartOfAStatus changes one field of each status after the
// other, in both directions.
func TestTenantsWriteTheirPartOfAStatus(t *testing.T) {
	tenants, seen := map[string]bool{}, 0
	for _, f := range kinds.StatusFields() {
		tenants[strings.ToLower(f.Kind+"."+f.Field)] = f.Why == ""
	}
	// Internally there is one list of addresses.
	tenants["pod.podips"] = tenants["pod.podip"]
	for _, example := range []runtime.Object{&core.Pod{}, &core.Service{}} {
		kind := reflect.TypeOf(example).Elem().Name()
		status := reflect.ValueOf(example).Elem().FieldByName("Status")
		for i := range status.NumField() {
			changed := example.DeepCopyObject()
			fill(reflect.ValueOf(changed).Elem().FieldByName("Status").Field(i))
			name := kind + "." + status.Type().Field(i).Name
			own, known := tenants[strings.ToLower(name)]
			if !known {
				t.Errorf("%s is not in the table", name)
			}
			for direction, err := range map[string]error{"added": checkStatus(changed, example),
				"removed": checkStatus(example, changed), "left alone": checkStatus(changed,
					changed.DeepCopyObject())} {
				if refused := err != nil; refused == (own || direction == "left alone") {
					t.Errorf("%s, %s: %v", name, direction, err)
				}
			}
			seen++
		}
	}
	if seen < 20 {
		t.Errorf("%d fields were tried", seen)
	}
}

func TestTenantsWriteTheirConditions(t *testing.T) {
	pod := func(conditions ...core.PodConditionType) *core.Pod {
		p := &core.Pod{}
		for _, c := range conditions {
			p.Status.Conditions = append(p.Status.Conditions, core.PodCondition{Type: c, Status: core.ConditionTrue})
		}
		return p
	}
	for _, c := range []struct {
		now, was *core.Pod
		ok       bool
	}{
		{pod("Ready", "PodScheduled"), pod("PodScheduled"), true},
		{pod("PodScheduled", "example.com/gate"), pod("Ready", "PodScheduled", "Initialized"), true},
		{pod("PodScheduled"), pod(), false},
		{pod(), pod("PodScheduled"), false},
		{pod("PodResizePending"), pod(), false},
		{pod("Ready", "Ready", "DisruptionTarget"), pod("Ready"), false},
		{pod("PodScheduled", "PodScheduled"), pod("PodScheduled"), false},
		{pod("Unheard"), pod(), false},
	} {
		if err := checkStatus(c.now, c.was); (err == nil) != c.ok {
			t.Errorf("%v, was %v: %v", c.now.Status.Conditions, c.was.Status.Conditions, err)
		}
	}
}
