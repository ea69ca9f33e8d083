package coreapi

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

type inner struct {
	Name string `protobuf:"bytes,1,opt,name=name"`
}

type outer struct {
	Text   string           `protobuf:"bytes,1,opt,name=text"`
	Is     bool             `protobuf:"varint,2,opt,name=is"`
	Number int64            `protobuf:"varint,3,opt,name=number"`
	Count  *int64           `protobuf:"varint,4,opt,name=count"`
	Inner  inner            `protobuf:"bytes,5,opt,name=inner"`
	List   []string         `protobuf:"bytes,6,rep,name=list"`
	ByName map[string]inner `protobuf:"bytes,20,rep,name=byName"`
}

func TestFields(t *testing.T) {
	p, zero := ProtobufOf[outer](), int64(0)
	for name, tc := range map[string]struct {
		in   outer
		want []byte
	}{
		// A message is written though it is empty, as upstream does.
		"nothing": {outer{}, []byte{5<<3 | 2, 0}},
		"what is empty but in a pointer, a list or a map": {
			outer{Count: &zero, List: []string{"", "b"}, ByName: map[string]inner{"": {}}},
			[]byte{4 << 3, 0, 5<<3 | 2, 0, 6<<3 | 2, 0, 6<<3 | 2, 1, 'b',
				20<<3&0x7f | 2 | 0x80, 1, 4, 1<<3 | 2, 0, 2<<3 | 2, 0}},
		"everything": {
			outer{Text: "a", Is: true, Number: -1, Inner: inner{"i"},
				ByName: map[string]inner{"y": {"2"}, "x": {"1"}}},
			[]byte{1<<3 | 2, 1, 'a', 2 << 3, 1, 3 << 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1,
				5<<3 | 2, 3, 1<<3 | 2, 1, 'i',
				20<<3&0x7f | 2 | 0x80, 1, 8, 1<<3 | 2, 1, 'x', 2<<3 | 2, 3, 1<<3 | 2, 1, '1',
				20<<3&0x7f | 2 | 0x80, 1, 8, 1<<3 | 2, 1, 'y', 2<<3 | 2, 3, 1<<3 | 2, 1, '2'}},
	} {
		t.Run(name, func(t *testing.T) {
			data, err := p.Marshal(&tc.in)
			if err != nil || !bytes.Equal(data, tc.want) {
				t.Errorf("%v, %v, want %v", data, err, tc.want)
			}
			var out outer
			later := append(data, 30<<3&0x7f|0x80, 1, 7) // a field of a later version
			if err := p.Unmarshal(&out, later); err != nil || !reflect.DeepEqual(out, tc.in) {
				t.Errorf("%+v, %v, want %+v", out, err, tc.in)
			}
		})
	}
}

func TestUnmarshalRefuses(t *testing.T) {
	p := ProtobufOf[outer]()
	for name, data := range map[string][]byte{
		"a number as text":        {1 << 3, 1},
		"text as a number":        {2<<3 | 2, 1, 'x'},
		"a field that is cut off": {1<<3 | 2, 9, 'x'},
		"a tag that is cut off":   {0x80},
		"a number of 0":           {0, 0},
		"a broken message":        {5<<3 | 2, 1, 0x80},
		"a broken entry of a map": {20<<3&0x7f | 2 | 0x80, 1, 1, 0x80},
	} {
		if err := p.Unmarshal(&outer{}, data); err == nil {
			t.Errorf("%s was read", name)
		}
	}
	q := ProtobufOf[struct {
		Q resource.Quantity `protobuf:"bytes,1,opt,name=q"`
	}]()
	if err := q.Unmarshal(new(struct {
		Q resource.Quantity `protobuf:"bytes,1,opt,name=q"`
	}), []byte{1<<3 | 2, 1, 'x'}); err == nil || !strings.Contains(err.Error(), `"x"`) {
		t.Errorf("a quantity that is none: %v", err)
	}
}

// TestTagsAreChecked: a type whose tags say nothing, or nonsense, is not encoded.
func TestTagsAreChecked(t *testing.T) {
	for want, err := range map[string]error{
		"wants a tag": ProtobufOf[struct{ Text string }]().err,
		"wants a tag such": ProtobufOf[struct {
			Text string `protobuf:"bytes,0,opt,name=text"`
		}]().err,
		"want varint": ProtobufOf[struct {
			Is bool `protobuf:"bytes,1,opt,name=is"`
		}]().err,
		"of another field": ProtobufOf[struct {
			A string `protobuf:"bytes,1,opt,name=a"`
			B string `protobuf:"bytes,1,opt,name=b"`
		}]().err,
		"no protobuf for float64": ProtobufOf[struct {
			F float64 `protobuf:"fixed64,1,opt,name=f"`
		}]().err,
		"lists of numbers": ProtobufOf[struct {
			L []int64 `protobuf:"varint,1,rep,name=l"`
		}]().err,
		"keys of a map": ProtobufOf[struct {
			M map[int64]string `protobuf:"bytes,1,rep,name=m"`
		}]().err,
		"Inner: ": ProtobufOf[struct {
			Inner struct{ Name string } `protobuf:"bytes,1,opt,name=inner"`
		}]().err,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	broken := ProtobufOf[struct{ Text string }]()
	if _, err := broken.Marshal(&struct{ Text string }{}); err == nil {
		t.Error("a type without tags was encoded")
	}
	if err := broken.Unmarshal(&struct{ Text string }{}, nil); err == nil {
		t.Error("a type without tags was read")
	}
}
