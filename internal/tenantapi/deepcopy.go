package tenantapi

import (
	"maps"

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
		out.Spec.Limits = l.DeepCopy()
	}
	if in.Status.Conditions != nil {
		out.Status.Conditions = make([]metav1.Condition, len(in.Status.Conditions))
		copy(out.Status.Conditions, in.Status.Conditions)
	}
	if in.Status.Usage != nil {
		out.Status.Usage = make([]LimitUsage, len(in.Status.Usage))
		for i, u := range in.Status.Usage {
			u.Used = u.Used.DeepCopy()
			if u.Limit != nil {
				limit := u.Limit.DeepCopy()
				u.Limit = &limit
			}
			out.Status.Usage[i] = u
		}
	}
}

// DeepCopy returns a copy that shares nothing with in.
func (in *TenantLimits) DeepCopy() *TenantLimits {
	if in == nil {
		return nil
	}
	out := *in
	for _, f := range out.fields() {
		f.copy()
	}
	out.Devices = maps.Clone(in.Devices)
	return &out
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
