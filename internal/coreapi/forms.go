package coreapi

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// form is how values of a type are encoded.
type form struct {
	wire   protowire.Type
	append func(b []byte, num protowire.Number, v reflect.Value) ([]byte, error)
	// read takes the encoded value. What is a list or a map is added to v.
	read func(data []byte, v reflect.Value) error
	// scalar fields are not written when they are empty, false or 0.
	scalar bool
}

// wireNames are what tags call the ways of encoding.
func wireNames() map[protowire.Type]string {
	return map[protowire.Type]string{protowire.VarintType: "varint", protowire.BytesType: "bytes"}
}

// messageOf reads the tags of the fields of a struct.
func messageOf(t reflect.Type) (message, error) {
	var m message
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Type == reflect.TypeFor[metav1.TypeMeta]() {
			continue // the serializer writes it around the object
		}
		wire, rest, _ := strings.Cut(f.Tag.Get("protobuf"), ",")
		text, _, _ := strings.Cut(rest, ",")
		n, err := strconv.ParseInt(text, 10, 32)
		num := protowire.Number(n)
		if err != nil || !num.IsValid() {
			return nil, fmt.Errorf("%v.%s wants a tag such as protobuf:\"bytes,1,opt,name=%s\"", t, f.Name, f.Name)
		}
		as, err := formOf(f.Type)
		if err != nil {
			return nil, fmt.Errorf("%v.%s: %w", t, f.Name, err)
		}
		if want := wireNames()[as.wire]; wire != want {
			return nil, fmt.Errorf("%v.%s has the tag %s, want %s", t, f.Name, wire, want)
		}
		if slices.ContainsFunc(m, func(o taggedField) bool { return o.num == num }) {
			return nil, fmt.Errorf("%v.%s has the number %d of another field", t, f.Name, num)
		}
		m = append(m, taggedField{index: i, num: num, form: as})
	}
	return m, nil
}

// encoder is a type that encodes itself.
type encoder interface {
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
}

func formOf(t reflect.Type) (form, error) {
	switch {
	case t == reflect.TypeFor[resource.Quantity]():
		return quantityForm(), nil
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoder]()):
		return bytesForm(func(v reflect.Value) ([]byte, error) { return v.Addr().Interface().(encoder).Marshal() },
			func(data []byte, v reflect.Value) error { return v.Addr().Interface().(encoder).Unmarshal(data) }), nil
	}
	switch t.Kind() {
	case reflect.String:
		f := bytesForm(func(v reflect.Value) ([]byte, error) { return []byte(v.String()), nil },
			func(data []byte, v reflect.Value) error { v.SetString(string(data)); return nil })
		f.scalar = true
		return f, nil
	case reflect.Bool:
		return numberForm(func(v reflect.Value) uint64 { return protowire.EncodeBool(v.Bool()) },
			func(n uint64, v reflect.Value) { v.SetBool(n != 0) }), nil
	case reflect.Int64:
		return numberForm(func(v reflect.Value) uint64 { return uint64(v.Int()) },
			func(n uint64, v reflect.Value) { v.SetInt(int64(n)) }), nil
	case reflect.Struct:
		m, err := messageOf(t)
		return bytesForm(func(v reflect.Value) ([]byte, error) { return m.appendTo(nil, v) }, m.read), err
	case reflect.Pointer:
		return pointerForm(t)
	case reflect.Slice:
		return listForm(t)
	case reflect.Map:
		return mapForm(t)
	}
	return form{}, errors.New("there is no protobuf for " + t.String())
}

func bytesForm(encode func(reflect.Value) ([]byte, error), decode func([]byte, reflect.Value) error) form {
	return form{
		wire: protowire.BytesType,
		append: func(b []byte, num protowire.Number, v reflect.Value) ([]byte, error) {
			data, err := encode(v)
			if err != nil {
				return nil, err
			}
			return protowire.AppendBytes(protowire.AppendTag(b, num, protowire.BytesType), data), nil
		},
		read: func(data []byte, v reflect.Value) error {
			data, _ = protowire.ConsumeBytes(data)
			return decode(data, v)
		},
	}
}

func numberForm(encode func(reflect.Value) uint64, decode func(uint64, reflect.Value)) form {
	return form{
		wire: protowire.VarintType, scalar: true,
		append: func(b []byte, num protowire.Number, v reflect.Value) ([]byte, error) {
			return protowire.AppendVarint(protowire.AppendTag(b, num, protowire.VarintType), encode(v)), nil
		},
		read: func(data []byte, v reflect.Value) error {
			n, _ := protowire.ConsumeVarint(data)
			decode(n, v)
			return nil
		},
	}
}

// quantityForm is text, as in JSON. Upstream has a message around it.
func quantityForm() form {
	return bytesForm(func(v reflect.Value) ([]byte, error) {
		q := v.Interface().(resource.Quantity) // a copy: it may be in a cache, and keeps its text
		return []byte(q.String()), nil
	}, func(data []byte, v reflect.Value) error {
		q, err := resource.ParseQuantity(string(data))
		if err != nil {
			return fmt.Errorf("%q: %w", data, err)
		}
		v.Set(reflect.ValueOf(q))
		return nil
	})
}

// pointerForm is nothing for nil.
func pointerForm(t reflect.Type) (form, error) {
	elem, err := formOf(t.Elem())
	return form{
		wire: elem.wire,
		append: func(b []byte, num protowire.Number, v reflect.Value) ([]byte, error) {
			if v.IsNil() {
				return b, nil
			}
			return elem.append(b, num, v.Elem())
		},
		read: func(data []byte, v reflect.Value) error {
			if v.IsNil() {
				v.Set(reflect.New(t.Elem()))
			}
			return elem.read(data, v.Elem())
		},
	}, err
}

// listForm is a field for each element, with the number of the list.
func listForm(t reflect.Type) (form, error) {
	elem, err := formOf(t.Elem())
	if err == nil && elem.wire != protowire.BytesType {
		err = errors.New("lists of numbers are encoded in two ways: there is none yet")
	}
	return form{
		wire: elem.wire,
		append: func(b []byte, num protowire.Number, v reflect.Value) ([]byte, error) {
			var err error
			for i := range v.Len() {
				if b, err = elem.append(b, num, v.Index(i)); err != nil {
					return nil, err
				}
			}
			return b, nil
		},
		read: func(data []byte, v reflect.Value) error {
			v.Set(reflect.Append(v, reflect.Zero(t.Elem())))
			return elem.read(data, v.Index(v.Len()-1))
		},
	}, err
}

// mapForm is a list of messages, in the order of the keys: 1 is the key and 2 the value.
func mapForm(t reflect.Type) (form, error) {
	entry := reflect.StructOf([]reflect.StructField{
		{Name: "Key", Type: t.Key()}, {Name: "Value", Type: t.Elem()},
	})
	value, err := formOf(t.Elem())
	if err == nil && t.Key().Kind() != reflect.String {
		err = errors.New("the keys of a map are text")
	}
	if err != nil {
		return form{}, err
	}
	key, err := formOf(t.Key())
	m := message{{index: 0, num: 1, form: key}, {index: 1, num: 2, form: value}}
	m[0].scalar, m[1].scalar = false, false
	one := bytesForm(func(v reflect.Value) ([]byte, error) { return m.appendTo(nil, v) }, m.read)
	return form{
		wire: protowire.BytesType,
		append: func(b []byte, num protowire.Number, v reflect.Value) ([]byte, error) {
			keys := v.MapKeys()
			slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
			e := reflect.New(entry).Elem()
			var err error
			for _, k := range keys {
				e.Field(0).Set(k)
				e.Field(1).Set(v.MapIndex(k))
				if b, err = one.append(b, num, e); err != nil {
					return nil, err
				}
			}
			return b, nil
		},
		read: func(data []byte, v reflect.Value) error {
			e := reflect.New(entry).Elem()
			if err := one.read(data, e); err != nil {
				return err
			}
			if v.IsNil() {
				v.Set(reflect.MakeMap(t))
			}
			v.SetMapIndex(e.Field(0), e.Field(1))
			return nil
		},
	}, err
}
