package partitionapi

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// DeepCopyObject implements runtime.Object.
func (in *DataPartitionConfig) DeepCopyObject() runtime.Object {
	if in == nil {
		return nil
	}
	return in.DeepCopy()
}

// DeepCopy returns a copy that shares nothing with in.
func (in *DataPartitionConfig) DeepCopy() *DataPartitionConfig {
	if in == nil {
		return nil
	}
	out := &DataPartitionConfig{}
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies in over out.
func (in *DataPartitionConfig) DeepCopyInto(out *DataPartitionConfig) {
	*out = *in
	in.ObjectMeta.DeepCopyInto(&out.ObjectMeta)
	out.Tenants = slices.Clone(in.Tenants)
}

// DeepCopyObject implements runtime.Object.
func (in *DataPartitionConfigList) DeepCopyObject() runtime.Object {
	if in == nil {
		return nil
	}
	return in.DeepCopy()
}

// DeepCopy returns a copy that shares nothing with in.
func (in *DataPartitionConfigList) DeepCopy() *DataPartitionConfigList {
	if in == nil {
		return nil
	}
	out := &DataPartitionConfigList{}
	in.DeepCopyInto(out)
	return out
}

// DeepCopyInto copies in over out.
func (in *DataPartitionConfigList) DeepCopyInto(out *DataPartitionConfigList) {
	*out = *in
	in.ListMeta.DeepCopyInto(&out.ListMeta)
	if in.Items != nil {
		out.Items = make([]DataPartitionConfig, len(in.Items))
		for i := range in.Items {
			in.Items[i].DeepCopyInto(&out.Items[i])
		}
	}
}
