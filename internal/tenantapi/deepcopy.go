package tenantapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject implements runtime.Object.
func (in *Tenant) DeepCopyObject() runtime.Object {
	if in == nil {
		return nil
	}
	return in.DeepCopy()
}

// DeepCopy returns a copy that shares nothing with in.
func (in *Tenant) DeepCopy() *Tenant {
	if in == nil {
		return nil
	}
	out := &Tenant{}
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies in over out.
func (in *Tenant) DeepCopyInto(out *Tenant) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if l := in.Spec.Limits; l != nil {
		out.Spec.Limits = &TenantLimits{
			Namespaces:       copied(l.Namespaces),
			Objects:          copied(l.Objects),
			RequestsInFlight: copied(l.RequestsInFlight),
		}
	}
	if in.Status.Conditions != nil {
		out.Status.Conditions = make([]metav1.Condition, len(in.Status.Conditions))
		copy(out.Status.Conditions, in.Status.Conditions)
	}
}

// DeepCopyObject implements runtime.Object.
func (in *TenantList) DeepCopyObject() runtime.Object {
	if in == nil {
		return nil
	}
	return in.DeepCopy()
}

// DeepCopy returns a copy that shares nothing with in.
func (in *TenantList) DeepCopy() *TenantList {
	if in == nil {
		return nil
	}
	out := &TenantList{}
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies in over out.
func (in *TenantList) DeepCopyInto(out *TenantList) {
	*out = *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]Tenant, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
}

func copied(p *int64) *int64 {
	if p == nil {
		return nil
	}
	v := *p
	return &v
}
