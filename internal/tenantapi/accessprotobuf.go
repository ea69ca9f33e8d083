package tenantapi

import (
	"github.com/a4s-io/a4s/internal/coreapi"
)

var (
	accessProtobuf     = coreapi.ProtobufOf[TenantAccess]()
	accessListProtobuf = coreapi.ProtobufOf[TenantAccessList]()
)

// Reset forgets what in has.
func (in *TenantAccess) Reset() { *in = TenantAccess{} }

// Marshal returns the encoded form.
func (in *TenantAccess) Marshal() ([]byte, error) { return accessProtobuf.Marshal(in) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *TenantAccess) MarshalTo(b []byte) (int, error) { return accessProtobuf.MarshalTo(in, b) }

// MarshalToSizedBuffer writes to the end of b, which has room for Size bytes.
func (in *TenantAccess) MarshalToSizedBuffer(b []byte) (int, error) {
	return accessProtobuf.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *TenantAccess) Size() int { return accessProtobuf.Size(in) }

// Unmarshal merges an encoded form into in.
func (in *TenantAccess) Unmarshal(data []byte) error { return accessProtobuf.Unmarshal(in, data) }

// Reset forgets what in has.
func (in *TenantAccessList) Reset() { *in = TenantAccessList{} }

// Marshal returns the encoded form.
func (in *TenantAccessList) Marshal() ([]byte, error) { return accessListProtobuf.Marshal(in) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *TenantAccessList) MarshalTo(b []byte) (int, error) {
	return accessListProtobuf.MarshalTo(in, b)
}

// MarshalToSizedBuffer writes to the end of b, which has room for Size bytes.
func (in *TenantAccessList) MarshalToSizedBuffer(b []byte) (int, error) {
	return accessListProtobuf.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *TenantAccessList) Size() int { return accessListProtobuf.Size(in) }

// Unmarshal merges an encoded form into in.
func (in *TenantAccessList) Unmarshal(data []byte) error {
	return accessListProtobuf.Unmarshal(in, data)
}
