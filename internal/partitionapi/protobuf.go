package partitionapi

import (
	"github.com/a4s-io/a4s/internal/coreapi"
)

// The methods that Kubernetes' protobuf serializer asks of a kind: all do what the tags of
// the fields say.

var (
	configProtobuf        = coreapi.ProtobufOf[DataPartitionConfig]()
	configListProtobuf    = coreapi.ProtobufOf[DataPartitionConfigList]()
	partitionProtobuf     = coreapi.ProtobufOf[Partition]()
	partitionListProtobuf = coreapi.ProtobufOf[PartitionList]()
	placementProtobuf     = coreapi.ProtobufOf[TenantPlacement]()
	placementListProtobuf = coreapi.ProtobufOf[TenantPlacementList]()
)

// Reset forgets what in has.
func (in *DataPartitionConfig) Reset() { *in = DataPartitionConfig{} }

// Marshal returns the encoded form.
func (in *DataPartitionConfig) Marshal() ([]byte, error) { return configProtobuf.Marshal(in) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *DataPartitionConfig) MarshalTo(b []byte) (int, error) {
	return configProtobuf.MarshalTo(in, b)
}

// MarshalToSizedBuffer writes to the end of b, which has room for Size bytes.
func (in *DataPartitionConfig) MarshalToSizedBuffer(b []byte) (int, error) {
	return configProtobuf.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *DataPartitionConfig) Size() int { return configProtobuf.Size(in) }

// Unmarshal merges an encoded form into in.
func (in *DataPartitionConfig) Unmarshal(data []byte) error {
	return configProtobuf.Unmarshal(in, data)
}

// Reset forgets what in has.
func (in *DataPartitionConfigList) Reset() { *in = DataPartitionConfigList{} }

// Marshal returns the encoded form.
func (in *DataPartitionConfigList) Marshal() ([]byte, error) { return configListProtobuf.Marshal(in) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *DataPartitionConfigList) MarshalTo(b []byte) (int, error) {
	return configListProtobuf.MarshalTo(in, b)
}

// MarshalToSizedBuffer writes to the end of b, which has room for Size bytes.
func (in *DataPartitionConfigList) MarshalToSizedBuffer(b []byte) (int, error) {
	return configListProtobuf.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *DataPartitionConfigList) Size() int { return configListProtobuf.Size(in) }

// Unmarshal merges an encoded form into in.
func (in *DataPartitionConfigList) Unmarshal(data []byte) error {
	return configListProtobuf.Unmarshal(in, data)
}

// Reset forgets what in has.
func (in *Partition) Reset() { *in = Partition{} }

// Marshal returns the encoded form.
func (in *Partition) Marshal() ([]byte, error) { return partitionProtobuf.Marshal(in) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *Partition) MarshalTo(b []byte) (int, error) { return partitionProtobuf.MarshalTo(in, b) }

// MarshalToSizedBuffer writes to the end of b, which has room for Size bytes.
func (in *Partition) MarshalToSizedBuffer(b []byte) (int, error) {
	return partitionProtobuf.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *Partition) Size() int { return partitionProtobuf.Size(in) }

// Unmarshal merges an encoded form into in.
func (in *Partition) Unmarshal(data []byte) error { return partitionProtobuf.Unmarshal(in, data) }

// Reset forgets what in has.
func (in *PartitionList) Reset() { *in = PartitionList{} }

// Marshal returns the encoded form.
func (in *PartitionList) Marshal() ([]byte, error) { return partitionListProtobuf.Marshal(in) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *PartitionList) MarshalTo(b []byte) (int, error) {
	return partitionListProtobuf.MarshalTo(in, b)
}

// MarshalToSizedBuffer writes to the end of b, which has room for Size bytes.
func (in *PartitionList) MarshalToSizedBuffer(b []byte) (int, error) {
	return partitionListProtobuf.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *PartitionList) Size() int { return partitionListProtobuf.Size(in) }

// Unmarshal merges an encoded form into in.
func (in *PartitionList) Unmarshal(data []byte) error {
	return partitionListProtobuf.Unmarshal(in, data)
}

// Reset forgets what in has.
func (in *TenantPlacement) Reset() { *in = TenantPlacement{} }

// Marshal returns the encoded form.
func (in *TenantPlacement) Marshal() ([]byte, error) { return placementProtobuf.Marshal(in) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *TenantPlacement) MarshalTo(b []byte) (int, error) {
	return placementProtobuf.MarshalTo(in, b)
}

// MarshalToSizedBuffer writes to the end of b, which has room for Size bytes.
func (in *TenantPlacement) MarshalToSizedBuffer(b []byte) (int, error) {
	return placementProtobuf.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *TenantPlacement) Size() int { return placementProtobuf.Size(in) }

// Unmarshal merges an encoded form into in.
func (in *TenantPlacement) Unmarshal(data []byte) error { return placementProtobuf.Unmarshal(in, data) }

// Reset forgets what in has.
func (in *TenantPlacementList) Reset() { *in = TenantPlacementList{} }

// Marshal returns the encoded form.
func (in *TenantPlacementList) Marshal() ([]byte, error) { return placementListProtobuf.Marshal(in) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *TenantPlacementList) MarshalTo(b []byte) (int, error) {
	return placementListProtobuf.MarshalTo(in, b)
}

// MarshalToSizedBuffer writes to the end of b, which has room for Size bytes.
func (in *TenantPlacementList) MarshalToSizedBuffer(b []byte) (int, error) {
	return placementListProtobuf.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *TenantPlacementList) Size() int { return placementListProtobuf.Size(in) }

// Unmarshal merges an encoded form into in.
func (in *TenantPlacementList) Unmarshal(data []byte) error {
	return placementListProtobuf.Unmarshal(in, data)
}
