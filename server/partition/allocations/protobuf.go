package allocations

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/a4s-io/a4s/internal/coreapi"
)

// The methods that Kubernetes' protobuf serializer asks of a type.

// Reset implements the protobuf interface of API objects.
func (in *NodeAllocation) Reset() { *in = NodeAllocation{} }

// Reset implements the protobuf interface of API objects.
func (in *NodeAllocationList) Reset() { *in = NodeAllocationList{} }

// Marshal implements the protobuf interface of API objects.
func (in *NodeAllocation) Marshal() ([]byte, error) { return in.AppendTo(nil) }

// Marshal implements the protobuf interface of API objects.
func (in *NodeAllocationList) Marshal() ([]byte, error) { return in.AppendTo(nil) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *NodeAllocation) MarshalTo(b []byte) (int, error) { return coreapi.MarshalTo(in, b) }

// MarshalTo writes to the beginning of b, which has room for Size bytes.
func (in *NodeAllocationList) MarshalTo(b []byte) (int, error) { return coreapi.MarshalTo(in, b) }

// MarshalToSizedBuffer writes to the end of b.
func (in *NodeAllocation) MarshalToSizedBuffer(b []byte) (int, error) {
	return coreapi.MarshalToEnd(in, b)
}

// MarshalToSizedBuffer writes to the end of b.
func (in *NodeAllocationList) MarshalToSizedBuffer(b []byte) (int, error) {
	return coreapi.MarshalToEnd(in, b)
}

// Size is the length of the encoded form.
func (in *NodeAllocation) Size() int { return coreapi.Size(in) }

// Size is the length of the encoded form.
func (in *NodeAllocationList) Size() int { return coreapi.Size(in) }

// Unmarshal merges an encoded NodeAllocation into in.
func (in *NodeAllocation) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) error {
		switch f.Num {
		case 1:
			return f.Message(&in.ObjectMeta)
		case 2:
			in.Shares = append(in.Shares, Share{})
			return f.Message(&in.Shares[len(in.Shares)-1])
		case 3:
			partition, err := f.Text()
			in.Awaited = append(in.Awaited, partition)
			return err
		}
		return nil
	})
}

// Unmarshal merges an encoded NodeAllocationList into in.
func (in *NodeAllocationList) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) error {
		switch f.Num {
		case 1:
			return f.Message(&in.ListMeta)
		case 2:
			in.Items = append(in.Items, NodeAllocation{})
			return f.Message(&in.Items[len(in.Items)-1])
		}
		return nil
	})
}

// Unmarshal merges an encoded Share into s.
func (s *Share) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) (err error) {
		switch f.Num {
		case 1:
			s.Partition, err = f.Text()
		case 2:
			var a amount
			if err = f.Message(&a); err == nil {
				if s.Requests == nil {
					s.Requests = corev1.ResourceList{}
				}
				s.Requests[a.name] = a.quantity
			}
		case 3:
			s.Pods, err = f.Number()
		case 4:
			s.HostPorts = append(s.HostPorts, HostPort{})
			err = f.Message(&s.HostPorts[len(s.HostPorts)-1])
		}
		return err
	})
}

// Unmarshal merges an encoded HostPort into p.
func (p *HostPort) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) (err error) {
		switch f.Num {
		case 1:
			var text string
			text, err = f.Text()
			p.Protocol = corev1.Protocol(text)
		case 2:
			p.IP, err = f.Text()
		case 3:
			p.Port, err = f.Number()
		}
		return err
	})
}

// amount is an entry of a list of resources. The quantity is text, as in JSON.
type amount struct {
	name     corev1.ResourceName
	quantity resource.Quantity
}

// Unmarshal merges an encoded amount into a.
func (a *amount) Unmarshal(data []byte) error {
	return coreapi.EachField(data, func(f coreapi.Value) error {
		text, err := f.Text()
		switch {
		case err != nil:
			return err
		case f.Num == 1:
			a.name = corev1.ResourceName(text)
		case f.Num == 2:
			if a.quantity, err = resource.ParseQuantity(text); err != nil {
				return fmt.Errorf("reading the quantity of %s: %w", a.name, err)
			}
		}
		return nil
	})
}

// AppendTo implements coreapi.Message.
func (in *NodeAllocation) AppendTo(b []byte) ([]byte, error) {
	b, err := coreapi.AppendMessage(b, 1, in.ObjectMeta.Marshal)
	for i := range in.Shares {
		if err != nil {
			return nil, err
		}
		b, err = coreapi.AppendMessage(b, 2, in.Shares[i].marshal)
	}
	for _, partition := range in.Awaited {
		b = coreapi.AppendText(b, 3, partition)
	}
	return b, err
}

// AppendTo implements coreapi.Message.
func (in *NodeAllocationList) AppendTo(b []byte) ([]byte, error) {
	b, err := coreapi.AppendMessage(b, 1, in.ListMeta.Marshal)
	for i := range in.Items {
		if err != nil {
			return nil, err
		}
		b, err = coreapi.AppendMessage(b, 2, in.Items[i].Marshal)
	}
	return b, err
}

func (s *Share) marshal() ([]byte, error) {
	b := coreapi.AppendText(nil, 1, s.Partition)
	var err error
	for _, name := range slices.Sorted(maps.Keys(s.Requests)) {
		quantity := s.Requests[name]
		if b, err = coreapi.AppendMessage(b, 2, func() ([]byte, error) {
			return coreapi.AppendText(coreapi.AppendText(nil, 1, string(name)), 2, quantity.String()), nil
		}); err != nil {
			return nil, err
		}
	}
	if s.Pods != 0 {
		b = coreapi.AppendNumber(b, 3, &s.Pods)
	}
	for _, p := range s.HostPorts {
		if b, err = coreapi.AppendMessage(b, 4, func() ([]byte, error) {
			b := coreapi.AppendText(coreapi.AppendText(nil, 1, string(p.Protocol)), 2, p.IP)
			return coreapi.AppendNumber(b, 3, &p.Port), nil
		}); err != nil {
			return nil, err
		}
	}
	return b, nil
}
