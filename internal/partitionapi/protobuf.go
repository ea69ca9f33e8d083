package partitionapi

import (
	"github.com/a4s-io/a4s/internal/coreapi"
)

// The methods that Kubernetes' protobuf serializer asks of a type.

// Reset implements the protobuf interface of API objects.
func (in *DataPartitionConfig) Reset() { *in = DataPartitionConfig{} }

// Reset implements the protobuf interface of API objects.
func (in *DataPartitionConfigList) Reset() { *in = DataPartitionConfigList{} }

// Marshal implements the protobuf interface of API objects.
func (in *DataPartitionConfig) Marshal() ([]byte, error) { return in.AppendTo(nil) }

// Marshal implements the protobuf interface of API objects.
func (in *DataPartitionConfigList) Marshal() ([]byte, error) { return in.AppendTo(nil) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *DataPartitionConfig) MarshalTo(b []byte) (int, error) { return coreapi.MarshalTo(in, b) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *DataPartitionConfigList) MarshalTo(b []byte) (int, error) { return coreapi.MarshalTo(in, b) }

// MarshalToSizedBuffer writes to the end of b.
func (in *DataPartitionConfig) MarshalToSizedBuffer(b []byte) (int, error) {
	return coreapi.MarshalToEnd(in, b)
}

// MarshalToSizedBuffer writes to the end of b.
func (in *DataPartitionConfigList) MarshalToSizedBuffer(b []byte) (int, error) {
	return coreapi.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *DataPartitionConfig) Size() int { return coreapi.Size(in) }

// Size is the length of the encoded form.
func (in *DataPartitionConfigList) Size() int { return coreapi.Size(in) }

// Unmarshal merges an encoded DataPartitionConfig into in.
func (in *DataPartitionConfig) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) (err error) {
		switch f.Num {
		case 1:
			err = f.Message(&in.ObjectMeta)
		case 2:
			in.RangeStart, err = f.Text()
		case 3:
			in.IsRangeStartValid, err = f.Bool()
		case 4:
			in.RangeEnd, err = f.Text()
		case 5:
			in.IsRangeEndValid, err = f.Bool()
		case 6:
			in.ServiceGroupID, err = f.Text()
		case 7:
			var tenant string
			tenant, err = f.Text()
			in.Tenants = append(in.Tenants, tenant)
		}
		return err
	})
}

// Unmarshal merges an encoded DataPartitionConfigList into in.
func (in *DataPartitionConfigList) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) error {
		switch f.Num {
		case 1:
			return f.Message(&in.ListMeta)
		case 2:
			in.Items = append(in.Items, DataPartitionConfig{})
			return f.Message(&in.Items[len(in.Items)-1])
		}
		return nil
	})
}

// AppendTo implements coreapi.Message.
func (in *DataPartitionConfig) AppendTo(b []byte) ([]byte, error) {
	b, err := coreapi.AppendMessage(b, 1, in.ObjectMeta.Marshal)
	if err != nil {
		return nil, err
	}
	b = coreapi.AppendText(b, 2, in.RangeStart)
	b = coreapi.AppendBool(b, 3, in.IsRangeStartValid)
	b = coreapi.AppendText(b, 4, in.RangeEnd)
	b = coreapi.AppendBool(b, 5, in.IsRangeEndValid)
	b = coreapi.AppendText(b, 6, in.ServiceGroupID)
	for _, tenant := range in.Tenants {
		b = coreapi.AppendText(b, 7, tenant)
	}
	return b, nil
}

// AppendTo implements coreapi.Message.
func (in *DataPartitionConfigList) AppendTo(b []byte) ([]byte, error) {
	b, err := coreapi.AppendMessage(b, 1, in.ListMeta.Marshal)
	for i := range in.Items {
		if err != nil {
			return nil, err
		}
		b, err = coreapi.AppendMessage(b, 2, in.Items[i].Marshal)
	}
	return b, err
}
