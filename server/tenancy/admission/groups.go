package admission

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/pod-security-admission/api"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// priority is what an object says of its priority at some place.
type priority struct {
	path, class string
	value       *int64
	policy      string
}

// prioritizedKinds are the kinds of tenants that have a priority somewhere: groups
// of pods, and what templates of them are in. What is only for pods is judged
// when the pods are made.
func prioritizedKinds() map[schema.GroupKind]bool {
	found := map[schema.GroupKind]bool{}
	for _, k := range kinds.FieldRows() {
		for _, version := range legacyscheme.Scheme.PrioritizedVersionsForGroup(k.Group) {
			t, ok := legacyscheme.Scheme.KnownTypes(version)[k.Kind]
			if ok && prioritized(t, nil) {
				found[schema.GroupKind{Group: k.Group, Kind: k.Kind}] = true
			}
		}
	}
	return found
}

// ofPods tells the types that only pods are made of.
func ofPods(t reflect.Type) bool { return t == reflect.TypeFor[corev1.PodSpec]() }

func isPriority(name string) bool {
	return name == "priorityClassName" || name == "priority" || name == "preemptionPolicy"
}

// prioritized reports whether a type has a priority. A type within itself is gone
// into once.
func prioritized(t reflect.Type, above []reflect.Type) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || ofPods(t) {
		return false
	}
	for _, a := range above {
		if a == t {
			return false
		}
	}
	for i := range t.NumField() {
		if isPriority(jsonName(t.Field(i))) || prioritized(t.Field(i).Type, append(above, t)) {
			return true
		}
	}
	return false
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// prioritiesIn finds what an object says of priorities, wherever it does.
func prioritiesIn(v reflect.Value, path string) []priority {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return prioritiesIn(v.Elem(), path)
	case reflect.Slice:
		var found []priority
		for i := range v.Len() {
			found = append(found, prioritiesIn(v.Index(i), fmt.Sprintf("%s[%d]", path, i))...)
		}
		return found
	case reflect.Map:
		var found []priority
		for _, key := range v.MapKeys() {
			found = append(found, prioritiesIn(v.MapIndex(key), fmt.Sprintf("%s[%v]", path, key))...)
		}
		return found
	case reflect.Struct:
	default:
		return nil
	}
	if ofPods(v.Type()) {
		return nil
	}
	own := priority{path: path}
	var found []priority
	for i := range v.NumField() {
		name, field := jsonName(v.Type().Field(i)), v.Field(i)
		if isPriority(name) {
			own.read(name, field)
			continue
		}
		if !v.Type().Field(i).IsExported() {
			continue
		}
		at := path
		if name != "" {
			at = strings.TrimPrefix(path+"."+name, ".")
		}
		found = append(found, prioritiesIn(field, at)...)
	}
	if own.class != "" || own.value != nil || own.policy != "" {
		found = append(found, own)
	}
	return found
}

func (p *priority) read(name string, v reflect.Value) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return
		}
		v = v.Elem()
	}
	switch {
	case name == "priorityClassName" && v.Kind() == reflect.String:
		p.class = v.String()
	case name == "preemptionPolicy" && v.Kind() == reflect.String:
		p.policy = v.String()
	case name == "priority" && v.CanInt():
		value := v.Int()
		p.value = &value
	}
}

// groupRules judge priorities that are not those of pods alone.
type groupRules struct {
	*guard
	// prioritized are the kinds of objects that have one.
	prioritized map[schema.GroupKind]bool
}

// check judges the priorities of groups of pods as those of pods: the
// scheduler makes room for a group by its own. What was allowed once stays.
func (g groupRules) check(ctx context.Context, tenant string, w written) error {
	if !g.prioritized[w.kind] {
		return nil
	}
	now := prioritiesIn(w.now, "")
	if reflect.DeepEqual(now, prioritiesIn(w.was, "")) {
		return nil
	}
	level, err := g.level(ctx, tenant)
	if err != nil {
		return err
	}
	for _, p := range now {
		if p.class != "" && level != api.LevelPrivileged {
			if err := g.checkPriorityClass(ctx, tenant, p.class); err != nil {
				return fmt.Errorf("%s: %w", p.path, err)
			}
		}
		if err := g.checkNumber(p); err != nil {
			return fmt.Errorf("%s: %w", p.path, err)
		}
	}
	return nil
}

// checkNumber compares what stands beside the class with it. Without it, it
// follows the class.
func (g groupRules) checkNumber(p priority) error {
	if p.value == nil && p.policy == "" {
		return nil
	}
	class, err := g.priorityClass(p.class)
	if err != nil {
		return err
	}
	value, of := int64(0), "a group without a priority class"
	never := false
	if class != nil {
		value, of = int64(class.Value), "the priority class "+class.Name
		never = class.PreemptionPolicy != nil && *class.PreemptionPolicy == corev1.PreemptNever
	}
	if p.value != nil && *p.value != value {
		return fmt.Errorf("priority is not %d, which is that of %s: leave it out, it follows the class", value, of)
	}
	if never && p.policy != "" && p.policy != string(corev1.PreemptNever) {
		return fmt.Errorf("preemptionPolicy is not %s, which is that of %s: leave it out, it follows the class",
			corev1.PreemptNever, of)
	}
	return nil
}
