package tenantapi

import (
	"github.com/a4s-io/a4s/internal/coreapi"
)

// The methods that Kubernetes' protobuf serializer asks of a kind: all do what the tags of
// the fields say.

var (
	tenantProtobuf     = coreapi.ProtobufOf[Tenant]()
	tenantListProtobuf = coreapi.ProtobufOf[TenantList]()
	usageProtobuf      = coreapi.ProtobufOf[TenantUsage]()
	usageListProtobuf  = coreapi.ProtobufOf[TenantUsageList]()

	templateProtobuf     = coreapi.ProtobufOf[TenantTemplate]()
	templateListProtobuf = coreapi.ProtobufOf[TenantTemplateList]()
)

// Reset forgets what in has.
func (in *Tenant) Reset() { *in = Tenant{} }

// Marshal returns the encoded form.
func (in *Tenant) Marshal() ([]byte, error) { return tenantProtobuf.Marshal(in) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *Tenant) MarshalTo(b []byte) (int, error) { return tenantProtobuf.MarshalTo(in, b) }

// MarshalToSizedBuffer writes to the end of b, which has room for Size bytes.
func (in *Tenant) MarshalToSizedBuffer(b []byte) (int, error) {
	return tenantProtobuf.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *Tenant) Size() int { return tenantProtobuf.Size(in) }

// Unmarshal merges an encoded form into in.
func (in *Tenant) Unmarshal(data []byte) error { return tenantProtobuf.Unmarshal(in, data) }

// Reset forgets what in has.
func (in *TenantList) Reset() { *in = TenantList{} }

// Marshal returns the encoded form.
func (in *TenantList) Marshal() ([]byte, error) { return tenantListProtobuf.Marshal(in) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *TenantList) MarshalTo(b []byte) (int, error) { return tenantListProtobuf.MarshalTo(in, b) }

// MarshalToSizedBuffer writes to the end of b, which has room for Size bytes.
func (in *TenantList) MarshalToSizedBuffer(b []byte) (int, error) {
	return tenantListProtobuf.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *TenantList) Size() int { return tenantListProtobuf.Size(in) }

// Unmarshal merges an encoded form into in.
func (in *TenantList) Unmarshal(data []byte) error { return tenantListProtobuf.Unmarshal(in, data) }

// Reset forgets what in has.
func (in *TenantUsage) Reset() { *in = TenantUsage{} }

// Marshal returns the encoded form.
func (in *TenantUsage) Marshal() ([]byte, error) { return usageProtobuf.Marshal(in) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *TenantUsage) MarshalTo(b []byte) (int, error) { return usageProtobuf.MarshalTo(in, b) }

// MarshalToSizedBuffer writes to the end of b, which has room for Size bytes.
func (in *TenantUsage) MarshalToSizedBuffer(b []byte) (int, error) {
	return usageProtobuf.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *TenantUsage) Size() int { return usageProtobuf.Size(in) }

// Unmarshal merges an encoded form into in.
func (in *TenantUsage) Unmarshal(data []byte) error { return usageProtobuf.Unmarshal(in, data) }

// Reset forgets what in has.
func (in *TenantUsageList) Reset() { *in = TenantUsageList{} }

// Marshal returns the encoded form.
func (in *TenantUsageList) Marshal() ([]byte, error) { return usageListProtobuf.Marshal(in) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *TenantUsageList) MarshalTo(b []byte) (int, error) {
	return usageListProtobuf.MarshalTo(in, b)
}

// MarshalToSizedBuffer writes to the end of b, which has room for Size bytes.
func (in *TenantUsageList) MarshalToSizedBuffer(b []byte) (int, error) {
	return usageListProtobuf.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *TenantUsageList) Size() int { return usageListProtobuf.Size(in) }

// Unmarshal merges an encoded form into in.
func (in *TenantUsageList) Unmarshal(data []byte) error { return usageListProtobuf.Unmarshal(in, data) }

// Reset forgets what in has.
func (in *TenantTemplate) Reset() { *in = TenantTemplate{} }

// Marshal returns the encoded form.
func (in *TenantTemplate) Marshal() ([]byte, error) { return templateProtobuf.Marshal(in) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *TenantTemplate) MarshalTo(b []byte) (int, error) { return templateProtobuf.MarshalTo(in, b) }

// MarshalToSizedBuffer writes to the end of b, which has room for Size bytes.
func (in *TenantTemplate) MarshalToSizedBuffer(b []byte) (int, error) {
	return templateProtobuf.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *TenantTemplate) Size() int { return templateProtobuf.Size(in) }

// Unmarshal merges an encoded form into in.
func (in *TenantTemplate) Unmarshal(data []byte) error { return templateProtobuf.Unmarshal(in, data) }

// Reset forgets what in has.
func (in *TenantTemplateList) Reset() { *in = TenantTemplateList{} }

// Marshal returns the encoded form.
func (in *TenantTemplateList) Marshal() ([]byte, error) { return templateListProtobuf.Marshal(in) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *TenantTemplateList) MarshalTo(b []byte) (int, error) {
	return templateListProtobuf.MarshalTo(in, b)
}

// MarshalToSizedBuffer writes to the end of b, which has room for Size bytes.
func (in *TenantTemplateList) MarshalToSizedBuffer(b []byte) (int, error) {
	return templateListProtobuf.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *TenantTemplateList) Size() int { return templateListProtobuf.Size(in) }

// Unmarshal merges an encoded form into in.
func (in *TenantTemplateList) Unmarshal(data []byte) error {
	return templateListProtobuf.Unmarshal(in, data)
}
