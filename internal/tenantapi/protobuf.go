package tenantapi

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The methods that Kubernetes' protobuf serializer asks of a type. They encode
// forwards into a growing buffer: tenants are small and rarely written, so the
// sizes that generated code computes beforehand are not worth their code.

// Reset implements the protobuf interface of API objects.
func (in *Tenant) Reset() { *in = Tenant{} }

// Reset implements the protobuf interface of API objects.
func (in *TenantList) Reset() { *in = TenantList{} }

// Marshal implements the protobuf interface of API objects.
func (in *Tenant) Marshal() ([]byte, error) { return in.appendTo(nil) }

// Marshal implements the protobuf interface of API objects.
func (in *TenantList) Marshal() ([]byte, error) { return in.appendTo(nil) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *Tenant) MarshalTo(b []byte) (int, error) { return marshalTo(in, b) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *TenantList) MarshalTo(b []byte) (int, error) { return marshalTo(in, b) }

// MarshalToSizedBuffer writes to the end of b.
func (in *Tenant) MarshalToSizedBuffer(b []byte) (int, error) { return marshalToEnd(in, b) }

// MarshalToSizedBuffer writes to the end of b.
func (in *TenantList) MarshalToSizedBuffer(b []byte) (int, error) { return marshalToEnd(in, b) }

// Size is the length of the encoded form.
func (in *Tenant) Size() int { return size(in) }

// Size is the length of the encoded form.
func (in *TenantList) Size() int { return size(in) }

// Unmarshal merges an encoded Tenant into in.
func (in *Tenant) Unmarshal(data []byte) error {
	return eachField(data, func(num protowire.Number, f value) error {
		switch num {
		case 1:
			return f.message(&in.ObjectMeta)
		case 2:
			return f.message(&in.Spec)
		case 3:
			return f.message(&in.Status)
		}
		return nil
	})
}

// Unmarshal merges an encoded TenantList into in.
func (in *TenantList) Unmarshal(data []byte) error {
	return eachField(data, func(num protowire.Number, f value) error {
		switch num {
		case 1:
			return f.message(&in.ListMeta)
		case 2:
			in.Items = append(in.Items, Tenant{})
			return f.message(&in.Items[len(in.Items)-1])
		}
		return nil
	})
}

// Unmarshal merges an encoded TenantSpec into in.
func (in *TenantSpec) Unmarshal(data []byte) error {
	return eachField(data, func(num protowire.Number, f value) error {
		switch num {
		case 1:
			if in.Limits == nil {
				in.Limits = &TenantLimits{}
			}
			return f.message(in.Limits)
		case 2:
			s, err := f.text()
			in.CRDPolicy = CRDPolicy(s)
			return err
		case 3:
			s, err := f.text()
			in.Nodes = NodeAccess(s)
			return err
		}
		return nil
	})
}

// Unmarshal merges encoded TenantLimits into in.
func (in *TenantLimits) Unmarshal(data []byte) error {
	fields := in.fields()
	return eachField(data, func(num protowire.Number, f value) error {
		if i := int(num) - 1; i >= 0 && i < len(fields) {
			return f.limit(fields[i])
		}
		return nil
	})
}

// Unmarshal merges an encoded TenantStatus into in.
func (in *TenantStatus) Unmarshal(data []byte) error {
	return eachField(data, func(num protowire.Number, f value) error {
		switch num {
		case 1:
			s, err := f.text()
			in.Phase = Phase(s)
			return err
		case 2:
			in.Conditions = append(in.Conditions, metav1.Condition{})
			return f.message(&in.Conditions[len(in.Conditions)-1])
		case 3:
			in.Usage = append(in.Usage, LimitUsage{})
			return f.message(&in.Usage[len(in.Usage)-1])
		}
		return nil
	})
}

// Unmarshal merges an encoded LimitUsage into in.
func (in *LimitUsage) Unmarshal(data []byte) error {
	return eachField(data, func(num protowire.Number, f value) (err error) {
		switch num {
		case 1:
			in.Name, err = f.text()
		case 2:
			in.Used, err = f.quantity()
		case 3:
			var q resource.Quantity
			q, err = f.quantity()
			in.Limit = &q
		}
		return err
	})
}

func (in *Tenant) appendTo(b []byte) ([]byte, error) {
	b, err := appendMessage(b, 1, in.ObjectMeta.Marshal)
	if err != nil {
		return nil, err
	}
	if b, err = appendMessage(b, 2, in.Spec.marshal); err != nil {
		return nil, err
	}
	return appendMessage(b, 3, in.Status.marshal)
}

func (in *TenantList) appendTo(b []byte) ([]byte, error) {
	b, err := appendMessage(b, 1, in.ListMeta.Marshal)
	for i := range in.Items {
		if err != nil {
			return nil, err
		}
		b, err = appendMessage(b, 2, in.Items[i].Marshal)
	}
	return b, err
}

func (in *TenantSpec) marshal() ([]byte, error) {
	var b []byte
	if l := in.Limits; l != nil {
		var limits []byte
		for i, f := range l.fields() {
			if f.count != nil {
				limits = appendNumber(limits, protowire.Number(i+1), *f.count)
			} else if *f.quantity != nil {
				limits = appendText(limits, protowire.Number(i+1), textOf(**f.quantity))
			}
		}
		b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), limits)
	}
	return appendText(appendText(b, 2, string(in.CRDPolicy)), 3, string(in.Nodes)), nil
}

func (in *TenantStatus) marshal() ([]byte, error) {
	b := appendText(nil, 1, string(in.Phase))
	var err error
	for i := range in.Conditions {
		if b, err = appendMessage(b, 2, in.Conditions[i].Marshal); err != nil {
			return nil, err
		}
	}
	for i := range in.Usage {
		if b, err = appendMessage(b, 3, in.Usage[i].marshal); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (in *LimitUsage) marshal() ([]byte, error) {
	b := appendText(nil, 1, in.Name)
	b = appendText(b, 2, textOf(in.Used))
	if in.Limit != nil {
		b = appendText(b, 3, textOf(*in.Limit))
	}
	return b, nil
}

func appendMessage(b []byte, num protowire.Number, marshal func() ([]byte, error)) ([]byte, error) {
	m, err := marshal()
	if err != nil {
		return nil, err
	}
	return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), m), nil
}

func appendText(b []byte, num protowire.Number, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendTag(b, num, protowire.BytesType), s)
}

func appendNumber(b []byte, num protowire.Number, p *int64) []byte {
	if p == nil {
		return b
	}
	return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), uint64(*p))
}

type appender interface {
	appendTo([]byte) ([]byte, error)
}

func size(m appender) int {
	b, err := m.appendTo(nil)
	if err != nil {
		return 0 // Marshal reports it
	}
	return len(b)
}

func marshalTo(m appender, b []byte) (int, error) {
	out, err := m.appendTo(b[:0])
	if err != nil {
		return 0, err
	}
	if len(out) > len(b) {
		return 0, fmt.Errorf("a message of %d bytes does not fit into %d", len(out), len(b))
	}
	return len(out), nil
}

func marshalToEnd(m appender, b []byte) (int, error) {
	out, err := m.appendTo(nil)
	if err != nil {
		return 0, err
	}
	if len(out) > len(b) {
		return 0, fmt.Errorf("a message of %d bytes does not fit into %d", len(out), len(b))
	}
	return copy(b[len(b)-len(out):], out), nil
}

// value is one encoded field.
type value struct {
	num   protowire.Number
	typ   protowire.Type
	bytes []byte // of a field of bytes
	n     uint64 // of a field of type varint
}

// eachField calls f for every field that is a varint or bytes and skips others.
func eachField(data []byte, f func(protowire.Number, value) error) error {
	for len(data) > 0 {
		num, typ, n := protowire.ConsumeTag(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		v := value{num: num, typ: typ}
		switch typ {
		case protowire.VarintType:
			v.n, n = protowire.ConsumeVarint(data)
		case protowire.BytesType:
			v.bytes, n = protowire.ConsumeBytes(data)
		default:
			n = protowire.ConsumeFieldValue(num, typ, data)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		data = data[n:]
		if err := f(num, v); err != nil {
			return err
		}
	}
	return nil
}

func (v value) want(typ protowire.Type) error {
	if v.typ != typ {
		return fmt.Errorf("field %d has wire type %d, want %d", v.num, v.typ, typ)
	}
	return nil
}

func (v value) message(m interface{ Unmarshal([]byte) error }) error {
	if err := v.want(protowire.BytesType); err != nil {
		return err
	}
	return m.Unmarshal(v.bytes)
}

func (v value) text() (string, error) { return string(v.bytes), v.want(protowire.BytesType) }

func (v value) number(p **int64) error {
	if err := v.want(protowire.VarintType); err != nil {
		return err
	}
	n := int64(v.n)
	*p = &n
	return nil
}

// textOf leaves the quantity as it is, which keeps its text otherwise: it may be
// in a cache.
func textOf(q resource.Quantity) string { return q.String() }

func (v value) quantity() (resource.Quantity, error) {
	s, err := v.text()
	if err != nil {
		return resource.Quantity{}, err
	}
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return q, fmt.Errorf("field %d: %q: %w", v.num, s, err)
	}
	return q, nil
}

func (v value) limit(f limitField) error {
	if f.count != nil {
		return v.number(f.count)
	}
	q, err := v.quantity()
	if err == nil {
		*f.quantity = &q
	}
	return err
}
