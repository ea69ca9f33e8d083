package allocations

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject implements runtime.Object.
func (in *NodeAllocation) DeepCopyObject() runtime.Object {
	if in == nil {
		return nil
	}
	return in.DeepCopy()
}

// DeepCopy returns a copy that shares nothing with in.
func (in *NodeAllocation) DeepCopy() *NodeAllocation {
	if in == nil {
		return nil
	}
	out := &NodeAllocation{}
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies in over out.
func (in *NodeAllocation) DeepCopyInto(out *NodeAllocation) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	if in.Shares != nil {
		out.Shares = make([]Share, len(in.Shares))
		for i := range in.Shares {
			out.Shares[i] = in.Shares[i].DeepCopy()
		}
	}
	out.Awaited = slices.Clone(in.Awaited)
}

// DeepCopy returns a copy that shares nothing with s.
func (s Share) DeepCopy() Share {
	s.Requests, s.HostPorts = s.Requests.DeepCopy(), slices.Clone(s.HostPorts)
	return s
}

// DeepCopyObject implements runtime.Object.
func (in *NodeAllocationList) DeepCopyObject() runtime.Object {
	if in == nil {
		return nil
	}
	return in.DeepCopy()
}

// DeepCopy returns a copy that shares nothing with in.
func (in *NodeAllocationList) DeepCopy() *NodeAllocationList {
	if in == nil {
		return nil
	}
	out := &NodeAllocationList{TypeMeta: in.TypeMeta}
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]NodeAllocation, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
	return out
}
