package partitionapi

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject implements runtime.Object.
func (in *Partition) DeepCopyObject() runtime.Object {
	if in == nil {
		return nil
	}
	return in.DeepCopy()
}

// DeepCopy returns a copy that shares nothing with in.
func (in *Partition) DeepCopy() *Partition {
	if in == nil {
		return nil
	}
	out := &Partition{}
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements runtime.Object.
func (in *PartitionList) DeepCopyObject() runtime.Object {
	if in == nil {
		return nil
	}
	return in.DeepCopy()
}

// DeepCopy returns a copy that shares nothing with in.
func (in *PartitionList) DeepCopy() *PartitionList {
	if in == nil {
		return nil
	}
	out := &PartitionList{}
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies in over out.
func (in *PartitionList) DeepCopyInto(out *PartitionList) {
	*out = *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]Partition, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
}

// DeepCopyObject implements runtime.Object.
func (in *TenantPlacement) DeepCopyObject() runtime.Object {
	if in == nil {
		return nil
	}
	return in.DeepCopy()
}

// DeepCopy returns a copy that shares nothing with in.
func (in *TenantPlacement) DeepCopy() *TenantPlacement {
	if in == nil {
		return nil
	}
	out := &TenantPlacement{}
	in.DeepCopyInto(out)
	return out
}

// DeepCopyObject implements runtime.Object.
func (in *TenantPlacementList) DeepCopyObject() runtime.Object {
	if in == nil {
		return nil
	}
	return in.DeepCopy()
}

// DeepCopy returns a copy that shares nothing with in.
func (in *TenantPlacementList) DeepCopy() *TenantPlacementList {
	if in == nil {
		return nil
	}
	out := &TenantPlacementList{}
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies in over out.
func (in *TenantPlacementList) DeepCopyInto(out *TenantPlacementList) {
	*out = *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]TenantPlacement, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
}

// DeepCopyInto copies in over out.
func (in *Partition) DeepCopyInto(out *Partition) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Roles, out.Spec.Servers = slices.Clone(in.Spec.Roles), slices.Clone(in.Spec.Servers)
	out.Spec.Removed = slices.Clone(in.Spec.Removed) // a time has no pointer that is written through
}

// DeepCopyInto copies in over out.
func (in *TenantPlacement) DeepCopyInto(out *TenantPlacement) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Spec.Tenant = in.Spec.Tenant.DeepCopy()
	if in.Status.TenantCreated != nil {
		out.Status.TenantCreated = in.Status.TenantCreated.DeepCopy()
	}
}
