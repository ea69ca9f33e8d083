package admission

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime"
	core "k8s.io/kubernetes/pkg/apis/core"
	corev1convert "k8s.io/kubernetes/pkg/apis/core/v1"

	"github.com/a4s-io/a4s/server/tenancy/kinds"
)

// checkStatus lets tenants write in the status of their pods and Services what
// nobody else goes by.
func checkStatus(object, old runtime.Object) error {
	switch o := object.(type) {
	case *core.Pod:
		before, ok := old.(*core.Pod)
		if !ok {
			return errNoOld
		}
		var now, was corev1.PodStatus
		if err := errors.Join(corev1convert.Convert_core_PodStatus_To_v1_PodStatus(&o.Status, &now, nil),
			corev1convert.Convert_core_PodStatus_To_v1_PodStatus(&before.Status, &was, nil)); err != nil {
			return fmt.Errorf("reading the status: %w", err)
		}
		if err := checkFields("Pod", &now, &was); err != nil {
			return err
		}
		return checkConditions(now.Conditions, was.Conditions)
	case *core.Service:
		before, ok := old.(*core.Service)
		if !ok {
			return errNoOld
		}
		var now, was corev1.ServiceStatus
		if err := errors.Join(corev1convert.Convert_core_ServiceStatus_To_v1_ServiceStatus(&o.Status, &now, nil),
			corev1convert.Convert_core_ServiceStatus_To_v1_ServiceStatus(&before.Status, &was, nil)); err != nil {
			return fmt.Errorf("reading the status: %w", err)
		}
		return checkFields("Service", &now, &was)
	}
	return fmt.Errorf("the status of a %T is not the tenant's", object)
}

var errNoOld = errors.New("there is no status yet")

// checkFields refuses changes of fields that are not the tenants'. now and was
// are pointers to the same type of the API.
func checkFields(kind string, now, was any) error {
	why, own := map[string]string{}, []string{}
	for _, f := range kinds.StatusFields() {
		if f.Kind != kind {
			continue
		}
		if why[f.Field] = f.Why; f.Why == "" {
			own = append(own, "status."+f.Field)
		}
	}
	n, w := reflect.ValueOf(now).Elem(), reflect.ValueOf(was).Elem()
	for i := range n.NumField() {
		field, _, _ := strings.Cut(n.Type().Field(i).Tag.Get("json"), ",")
		reason, known := why[field]
		if known && reason == "" || equality.Semantic.DeepEqual(n.Field(i).Interface(), w.Field(i).Interface()) {
			continue
		}
		if !known {
			reason = "nothing is known of it"
		}
		return fmt.Errorf("status.%s is written by the system only, because %s; change %s", field, reason,
			strings.Join(own, ", "))
	}
	return nil
}

// checkConditions refuses changes of conditions that are not the tenants'.
func checkConditions(now, was []corev1.PodCondition) error {
	systems := func(all []corev1.PodCondition) map[corev1.PodConditionType][]corev1.PodCondition {
		out := map[corev1.PodConditionType][]corev1.PodCondition{}
		for _, c := range all {
			if !kinds.TenantsPodCondition(string(c.Type)) {
				out[c.Type] = append(out[c.Type], c)
			}
		}
		return out
	}
	n, w := systems(now), systems(was)
	for of := range w {
		if _, ok := n[of]; !ok {
			n[of] = nil
		}
	}
	for of := range n {
		if !equality.Semantic.DeepEqual(n[of], w[of]) {
			return fmt.Errorf("the condition %s in status.conditions is written by the system only; change Ready, "+
				"ContainersReady, Initialized, or one whose type has a domain, as example.com/checked", of)
		}
	}
	return nil
}
