package tenantapi

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/coreapi"
)

// The methods that Kubernetes' protobuf serializer asks of a type.

// Reset implements the protobuf interface of API objects.
func (in *Tenant) Reset() { *in = Tenant{} }

// Reset implements the protobuf interface of API objects.
func (in *TenantList) Reset() { *in = TenantList{} }

// Marshal implements the protobuf interface of API objects.
func (in *Tenant) Marshal() ([]byte, error) { return in.AppendTo(nil) }

// Marshal implements the protobuf interface of API objects.
func (in *TenantList) Marshal() ([]byte, error) { return in.AppendTo(nil) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *Tenant) MarshalTo(b []byte) (int, error) { return coreapi.MarshalTo(in, b) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *TenantList) MarshalTo(b []byte) (int, error) { return coreapi.MarshalTo(in, b) }

// MarshalToSizedBuffer writes to the end of b.
func (in *Tenant) MarshalToSizedBuffer(b []byte) (int, error) { return coreapi.MarshalToEnd(in, b) }

// MarshalToSizedBuffer writes to the end of b.
func (in *TenantList) MarshalToSizedBuffer(b []byte) (int, error) {
	return coreapi.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *Tenant) Size() int { return coreapi.Size(in) }

// Size is the length of the encoded form.
func (in *TenantList) Size() int { return coreapi.Size(in) }

// Unmarshal merges an encoded Tenant into in.
func (in *Tenant) Unmarshal(data []byte) error {
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

// Unmarshal merges an encoded TenantList into in.
func (in *TenantList) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) error {
		switch f.Num {
		case 1:
			return f.Message(&in.ListMeta)
		case 2:
			in.Items = append(in.Items, Tenant{})
			return f.Message(&in.Items[len(in.Items)-1])
		}
		return nil
	})
}

// Unmarshal merges an encoded TenantSpec into in.
func (in *TenantSpec) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) error {
		switch f.Num {
		case 1:
			if in.Limits == nil {
				in.Limits = &TenantLimits{}
			}
			return f.Message(in.Limits)
		case 2:
			s, err := f.Text()
			in.CRDPolicy = CRDPolicy(s)
			return err
		case 3:
			s, err := f.Text()
			in.Nodes = NodeAccess(s)
			return err
		case 4:
			var err error
			in.Partition, err = f.Text()
			return err
		}
		return nil
	})
}

// Unmarshal merges encoded TenantLimits into in.
func (in *TenantLimits) Unmarshal(data []byte) error {
	fields := in.fields()
	return coreapi.EachField(data, func(f coreapi.Value) error {
		if f.Num == devicesField {
			return in.readDevices(f)
		}
		for i := range fields {
			if fields[i].numbered(i) == f.Num {
				return fields[i].read(f)
			}
		}
		return nil
	})
}

// Unmarshal merges an encoded TenantStatus into in.
func (in *TenantStatus) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) error {
		switch f.Num {
		case 1:
			s, err := f.Text()
			in.Phase = Phase(s)
			return err
		case 2:
			in.Conditions = append(in.Conditions, metav1.Condition{})
			return f.Message(&in.Conditions[len(in.Conditions)-1])
		case 3:
			in.Usage = append(in.Usage, LimitUsage{})
			return f.Message(&in.Usage[len(in.Usage)-1])
		}
		return nil
	})
}

// Unmarshal merges an encoded LimitUsage into in.
func (in *LimitUsage) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) (err error) {
		switch f.Num {
		case 1:
			in.Name, err = f.Text()
		case 2:
			in.Used, err = quantity(f)
		case 3:
			var q resource.Quantity
			q, err = quantity(f)
			in.Limit = &q
		}
		return err
	})
}

// AppendTo implements coreapi.Message.
func (in *Tenant) AppendTo(b []byte) ([]byte, error) {
	b, err := coreapi.AppendMessage(b, 1, in.ObjectMeta.Marshal)
	if err != nil {
		return nil, err
	}
	if b, err = coreapi.AppendMessage(b, 2, in.Spec.marshal); err != nil {
		return nil, err
	}
	return coreapi.AppendMessage(b, 3, in.Status.marshal)
}

// AppendTo implements coreapi.Message.
func (in *TenantList) AppendTo(b []byte) ([]byte, error) {
	b, err := coreapi.AppendMessage(b, 1, in.ListMeta.Marshal)
	for i := range in.Items {
		if err != nil {
			return nil, err
		}
		b, err = coreapi.AppendMessage(b, 2, in.Items[i].Marshal)
	}
	return b, err
}

func (in *TenantSpec) marshal() ([]byte, error) {
	var b []byte
	if l := in.Limits; l != nil {
		var limits []byte
		for i, f := range l.fields() {
			if f.count != nil {
				limits = coreapi.AppendNumber(limits, f.numbered(i), *f.count)
			} else if *f.quantity != nil {
				limits = coreapi.AppendText(limits, f.numbered(i), textOf(**f.quantity))
			}
		}
		limits = appendDevices(limits, l.Devices)
		b = protowire.AppendBytes(protowire.AppendTag(b, 1, protowire.BytesType), limits)
	}
	b = coreapi.AppendText(coreapi.AppendText(b, 2, string(in.CRDPolicy)), 3, string(in.Nodes))
	return coreapi.AppendText(b, 4, in.Partition), nil
}

func (in *TenantStatus) marshal() ([]byte, error) {
	b := coreapi.AppendText(nil, 1, string(in.Phase))
	var err error
	for i := range in.Conditions {
		if b, err = coreapi.AppendMessage(b, 2, in.Conditions[i].Marshal); err != nil {
			return nil, err
		}
	}
	for i := range in.Usage {
		if b, err = coreapi.AppendMessage(b, 3, in.Usage[i].marshal); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (in *LimitUsage) marshal() ([]byte, error) {
	b := coreapi.AppendText(nil, 1, in.Name)
	b = coreapi.AppendText(b, 2, textOf(in.Used))
	if in.Limit != nil {
		b = coreapi.AppendText(b, 3, textOf(*in.Limit))
	}
	return b, nil
}

// textOf leaves the quantity as it is, which keeps its text otherwise: it may be
// in a cache.
func textOf(q resource.Quantity) string { return q.String() }

func quantity(v coreapi.Value) (resource.Quantity, error) {
	s, err := v.Text()
	if err != nil {
		return resource.Quantity{}, err
	}
	q, err := resource.ParseQuantity(s)
	if err != nil {
		return q, fmt.Errorf("field %d: %q: %w", v.Num, s, err)
	}
	return q, nil
}

func (f limitField) read(v coreapi.Value) error {
	if f.count != nil {
		n, err := v.Number()
		if err == nil {
			*f.count = &n
		}
		return err
	}
	q, err := quantity(v)
	if err == nil {
		*f.quantity = &q
	}
	return err
}
