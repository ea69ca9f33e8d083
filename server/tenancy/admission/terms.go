package admission

import (
	"fmt"
	"reflect"
	"strings"

	core "k8s.io/kubernetes/pkg/apis/core"
)

// What a pod may ask of the scheduler, which looks at each of these for each node, and
// for many of them at each pod there, while the pods of everybody wait.
const (
	// mostTerms bounds each list of terms, mostConditions what stands in all of them.
	mostTerms      = 100
	mostConditions = 2000
)

// asked is how much of one kind a pod asks.
type asked struct {
	field, what string
	n, most     int
}

// askedOf counts what a pod asks of the scheduler. A term is what it decides by, a
// condition each requirement, value, label and namespace in a term, each name of a
// resource and each container.
func askedOf(spec *core.PodSpec) []asked {
	var conditions, claims int
	terms := func(of any) (n int) {
		count(reflect.ValueOf(of), &n, &conditions)
		return n
	}
	for i := range spec.Volumes {
		if v := &spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			claims++
		}
	}
	out := []asked{
		{"spec.affinity", "terms", terms(spec.Affinity), mostTerms},
		{"spec.topologySpreadConstraints", "constraints", terms(spec.TopologySpreadConstraints), mostTerms},
		{"spec.tolerations", "tolerations", terms(spec.Tolerations), mostTerms},
		{"spec.resourceClaims", "claims", len(spec.ResourceClaims), mostTerms},
		{"spec.volumes", "claims of volumes", claims, mostTerms},
	}
	conditions += len(spec.NodeSelector) + len(spec.Overhead)
	resources := func(r *core.ResourceRequirements) {
		conditions += len(r.Requests) + len(r.Limits) + len(r.Claims)
	}
	if spec.Resources != nil {
		resources(spec.Resources)
	}
	for _, containers := range [][]core.Container{spec.InitContainers, spec.Containers} {
		conditions += len(containers)
		for i := range containers {
			resources(&containers[i].Resources)
			conditions += len(containers[i].Ports)
		}
	}
	return append(out, asked{"spec", "requirements, values, names of resources, ports and containers", conditions,
		mostConditions})
}

// count counts the terms and conditions in a value. What is not known to be a requirement
// of a term is one.
func count(v reflect.Value, terms, conditions *int) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			count(v.Elem(), terms, conditions)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			count(v.Field(i), terms, conditions)
		}
	case reflect.Map:
		*conditions += v.Len()
	case reflect.Slice:
		of := v.Type().Elem()
		n := conditions
		if of.Kind() == reflect.Struct && !strings.HasSuffix(of.Name(), "Requirement") {
			n = terms
		}
		*n += v.Len()
		for i := range v.Len() {
			count(v.Index(i), terms, conditions)
		}
	}
}

// checkAsked refuses a pod that asks more of the scheduler than it may. Old is nil for a
// new pod; what an old one asks already stays.
func checkAsked(pod, old *core.Pod) error {
	var was []asked
	if old != nil {
		was = askedOf(&old.Spec)
	}
	for i, a := range askedOf(&pod.Spec) {
		if a.n > a.most && (was == nil || a.n > was[i].n) {
			return fmt.Errorf("%s has %d %s: it may have %d, because the scheduler looks at each of them for each "+
				"node, and the pods of all tenants wait for it", a.field, a.n, a.what, a.most)
		}
	}
	return nil
}
