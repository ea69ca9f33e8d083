package partitionapi

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/a4s-io/a4s/internal/coreapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
)

// The methods that Kubernetes' protobuf serializer asks of a type.

// Reset implements the protobuf interface of API objects.
func (in *Partition) Reset() { *in = Partition{} }

// Marshal implements the protobuf interface of API objects.
func (in *Partition) Marshal() ([]byte, error) { return in.AppendTo(nil) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *Partition) MarshalTo(b []byte) (int, error) { return coreapi.MarshalTo(in, b) }

// MarshalToSizedBuffer writes to the end of b.
func (in *Partition) MarshalToSizedBuffer(b []byte) (int, error) { return coreapi.MarshalToEnd(in, b) }

// Size is the length of the encoded form.
func (in *Partition) Size() int { return coreapi.Size(in) }

// Reset implements the protobuf interface of API objects.
func (in *PartitionList) Reset() { *in = PartitionList{} }

// Marshal implements the protobuf interface of API objects.
func (in *PartitionList) Marshal() ([]byte, error) { return in.AppendTo(nil) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *PartitionList) MarshalTo(b []byte) (int, error) { return coreapi.MarshalTo(in, b) }

// MarshalToSizedBuffer writes to the end of b.
func (in *PartitionList) MarshalToSizedBuffer(b []byte) (int, error) {
	return coreapi.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *PartitionList) Size() int { return coreapi.Size(in) }

// Reset implements the protobuf interface of API objects.
func (in *TenantPlacement) Reset() { *in = TenantPlacement{} }

// Marshal implements the protobuf interface of API objects.
func (in *TenantPlacement) Marshal() ([]byte, error) { return in.AppendTo(nil) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *TenantPlacement) MarshalTo(b []byte) (int, error) { return coreapi.MarshalTo(in, b) }

// MarshalToSizedBuffer writes to the end of b.
func (in *TenantPlacement) MarshalToSizedBuffer(b []byte) (int, error) {
	return coreapi.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *TenantPlacement) Size() int { return coreapi.Size(in) }

// Reset implements the protobuf interface of API objects.
func (in *TenantPlacementList) Reset() { *in = TenantPlacementList{} }

// Marshal implements the protobuf interface of API objects.
func (in *TenantPlacementList) Marshal() ([]byte, error) { return in.AppendTo(nil) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *TenantPlacementList) MarshalTo(b []byte) (int, error) { return coreapi.MarshalTo(in, b) }

// MarshalToSizedBuffer writes to the end of b.
func (in *TenantPlacementList) MarshalToSizedBuffer(b []byte) (int, error) {
	return coreapi.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *TenantPlacementList) Size() int { return coreapi.Size(in) }

// Unmarshal merges an encoded PartitionList into in.
func (in *PartitionList) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) error {
		switch f.Num {
		case 1:
			return f.Message(&in.ListMeta)
		case 2:
			in.Items = append(in.Items, Partition{})
			return f.Message(&in.Items[len(in.Items)-1])
		}
		return nil
	})
}

// AppendTo implements coreapi.Message.
func (in *PartitionList) AppendTo(b []byte) ([]byte, error) {
	b, err := coreapi.AppendMessage(b, 1, in.ListMeta.Marshal)
	for i := range in.Items {
		if err != nil {
			return nil, err
		}
		b, err = coreapi.AppendMessage(b, 2, in.Items[i].Marshal)
	}
	return b, err
}

// Unmarshal merges an encoded TenantPlacementList into in.
func (in *TenantPlacementList) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) error {
		switch f.Num {
		case 1:
			return f.Message(&in.ListMeta)
		case 2:
			in.Items = append(in.Items, TenantPlacement{})
			return f.Message(&in.Items[len(in.Items)-1])
		}
		return nil
	})
}

// AppendTo implements coreapi.Message.
func (in *TenantPlacementList) AppendTo(b []byte) ([]byte, error) {
	b, err := coreapi.AppendMessage(b, 1, in.ListMeta.Marshal)
	for i := range in.Items {
		if err != nil {
			return nil, err
		}
		b, err = coreapi.AppendMessage(b, 2, in.Items[i].Marshal)
	}
	return b, err
}

// Unmarshal merges an encoded Partition into in.
func (in *Partition) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) error {
		switch f.Num {
		case 1:
			return f.Message(&in.ObjectMeta)
		case 2:
			return f.Message(&in.Spec)
		}
		return nil
	})
}

// AppendTo implements coreapi.Message.
func (in *Partition) AppendTo(b []byte) ([]byte, error) {
	b, err := coreapi.AppendMessage(b, 1, in.ObjectMeta.Marshal)
	if err != nil {
		return nil, err
	}
	return coreapi.AppendMessage(b, 2, func() ([]byte, error) { return in.Spec.appendTo(nil) })
}

// Unmarshal merges an encoded PartitionSpec into in.
func (in *PartitionSpec) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) (err error) {
		switch f.Num {
		case 1:
			var role string
			role, err = f.Text()
			in.Roles = append(in.Roles, Role(role))
		case 2:
			in.Identity, err = f.Text()
		case 3:
			in.Servers = append(in.Servers, PartitionServer{})
			err = f.Message(&in.Servers[len(in.Servers)-1])
		case 4:
			in.ServiceCIDR, err = f.Text()
		case 5:
			in.ClusterCIDR, err = f.Text()
		case 6:
			in.NodePortRange, err = f.Text()
		case 7:
			in.ClusterDNS, err = f.Text()
		case 8:
			in.Removed = append(in.Removed, RemovedPartition{})
			err = f.Message(&in.Removed[len(in.Removed)-1])
		case 9:
			in.Restored, err = f.Text()
		}
		return err
	})
}

func (in *PartitionSpec) appendTo(b []byte) ([]byte, error) {
	for _, role := range in.Roles {
		b = coreapi.AppendText(b, 1, string(role))
	}
	b = coreapi.AppendText(b, 2, in.Identity)
	for i := range in.Servers {
		var err error
		if b, err = coreapi.AppendMessage(b, 3, in.Servers[i].marshal); err != nil {
			return nil, err
		}
	}
	b = coreapi.AppendText(b, 4, in.ServiceCIDR)
	b = coreapi.AppendText(b, 5, in.ClusterCIDR)
	b = coreapi.AppendText(b, 6, in.NodePortRange)
	b = coreapi.AppendText(b, 7, in.ClusterDNS)
	for i := range in.Removed {
		var err error
		if b, err = coreapi.AppendMessage(b, 8, in.Removed[i].marshal); err != nil {
			return nil, err
		}
	}
	return coreapi.AppendText(b, 9, in.Restored), nil
}

// Unmarshal merges an encoded RemovedPartition into in.
func (in *RemovedPartition) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) (err error) {
		switch f.Num {
		case 1:
			in.Name, err = f.Text()
		case 2:
			in.Identity, err = f.Text()
		case 3:
			err = f.Message(&in.At)
		}
		return err
	})
}

func (in *RemovedPartition) marshal() ([]byte, error) {
	b := coreapi.AppendText(coreapi.AppendText(nil, 1, in.Name), 2, in.Identity)
	return coreapi.AppendMessage(b, 3, in.At.Marshal)
}

// Unmarshal merges an encoded PartitionServer into in.
func (in *PartitionServer) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) (err error) {
		switch f.Num {
		case 1:
			in.Name, err = f.Text()
		case 2:
			in.Address, err = f.Text()
		}
		return err
	})
}

func (in *PartitionServer) marshal() ([]byte, error) {
	return coreapi.AppendText(coreapi.AppendText(nil, 1, in.Name), 2, in.Address), nil
}

// Unmarshal merges an encoded TenantPlacement into in.
func (in *TenantPlacement) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) error {
		switch f.Num {
		case 1:
			return f.Message(&in.ObjectMeta)
		case 2:
			return f.Message(&in.Spec)
		case 3:
			return f.Message(&in.Status)
		}
		return nil
	})
}

// AppendTo implements coreapi.Message.
func (in *TenantPlacement) AppendTo(b []byte) ([]byte, error) {
	b, err := coreapi.AppendMessage(b, 1, in.ObjectMeta.Marshal)
	if err != nil {
		return nil, err
	}
	if b, err = coreapi.AppendMessage(b, 2, in.Spec.marshal); err != nil {
		return nil, err
	}
	return coreapi.AppendMessage(b, 3, in.Status.marshal)
}

// Unmarshal merges an encoded TenantPlacementSpec into in.
func (in *TenantPlacementSpec) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) (err error) {
		switch f.Num {
		case 1:
			in.Partition, err = f.Text()
		case 2:
			if in.Tenant == nil {
				in.Tenant = &tenantapi.Tenant{}
			}
			err = f.Message(in.Tenant)
		}
		return err
	})
}

func (in *TenantPlacementSpec) marshal() ([]byte, error) {
	b := coreapi.AppendText(nil, 1, in.Partition)
	if in.Tenant == nil {
		return b, nil
	}
	return coreapi.AppendMessage(b, 2, in.Tenant.Marshal)
}

// Unmarshal merges an encoded TenantPlacementStatus into in.
func (in *TenantPlacementStatus) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) error {
		switch f.Num {
		case 1:
			s, err := f.Text()
			in.Phase = PlacementPhase(s)
			return err
		case 2:
			s, err := f.Text()
			in.TenantUID = types.UID(s)
			return err
		case 3:
			if in.TenantCreated == nil {
				in.TenantCreated = &metav1.Time{}
			}
			return f.Message(in.TenantCreated)
		}
		return nil
	})
}

func (in *TenantPlacementStatus) marshal() ([]byte, error) {
	b := coreapi.AppendText(nil, 1, string(in.Phase))
	b = coreapi.AppendText(b, 2, string(in.TenantUID))
	if in.TenantCreated == nil {
		return b, nil
	}
	return coreapi.AppendMessage(b, 3, in.TenantCreated.Marshal)
}
