package allocations

import (
	"github.com/a4s-io/a4s/internal/coreapi"
)

// The methods that Kubernetes' protobuf serializer asks of a kind: all do what the tags of
// the fields say.

var (
	allocationProtobuf     = coreapi.ProtobufOf[NodeAllocation]()
	allocationListProtobuf = coreapi.ProtobufOf[NodeAllocationList]()
)

// Reset forgets what in has.
func (in *NodeAllocation) Reset() { *in = NodeAllocation{} }

// Marshal returns the encoded form.
func (in *NodeAllocation) Marshal() ([]byte, error) { return allocationProtobuf.Marshal(in) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *NodeAllocation) MarshalTo(b []byte) (int, error) {
	return allocationProtobuf.MarshalTo(in, b)
}

// MarshalToSizedBuffer writes to the end of b, which has room for Size bytes.
func (in *NodeAllocation) MarshalToSizedBuffer(b []byte) (int, error) {
	return allocationProtobuf.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *NodeAllocation) Size() int { return allocationProtobuf.Size(in) }

// Unmarshal merges an encoded form into in.
func (in *NodeAllocation) Unmarshal(data []byte) error { return allocationProtobuf.Unmarshal(in, data) }

// Reset forgets what in has.
func (in *NodeAllocationList) Reset() { *in = NodeAllocationList{} }

// Marshal returns the encoded form.
func (in *NodeAllocationList) Marshal() ([]byte, error) { return allocationListProtobuf.Marshal(in) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *NodeAllocationList) MarshalTo(b []byte) (int, error) {
	return allocationListProtobuf.MarshalTo(in, b)
}

// MarshalToSizedBuffer writes to the end of b, which has room for Size bytes.
func (in *NodeAllocationList) MarshalToSizedBuffer(b []byte) (int, error) {
	return allocationListProtobuf.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *NodeAllocationList) Size() int { return allocationListProtobuf.Size(in) }

// Unmarshal merges an encoded form into in.
func (in *NodeAllocationList) Unmarshal(data []byte) error {
	return allocationListProtobuf.Unmarshal(in, data)
}
