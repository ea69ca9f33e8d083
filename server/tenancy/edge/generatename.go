package edge

import (
	"bytes"
	"errors"

	"google.golang.org/protobuf/encoding/protowire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/storage/names"

	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// generateAttempts is the number of names that are tried before a conflict is reported.
const generateAttempts = 8

// generator generates the name of a cluster-scoped object from its generateName.
// Upstream would put the random characters last, but the tenant has to follow them.
type generator struct {
	base    string
	body    []byte // native, without a name
	media   string
	compose func([]byte) ([]byte, error)
}

// newGenerator returns nil for a body, of JSON or protobuf, that has a name or no
// generateName, and for a body that cannot be decoded: the API server refuses it.
func newGenerator(media string, body []byte) *generator {
	var name, base string
	if media == protobuf {
		raw, ok := rawProto(body)
		var object metav1.PartialObjectMetadata
		if !ok || object.Unmarshal(raw.Raw) != nil {
			return nil
		}
		name, base = object.Name, object.GenerateName
	} else {
		said := wire.Tell(body)
		name, base = said.Name, said.GenerateName
	}
	if base == "" || name != "" {
		return nil
	}
	return &generator{base: base, body: body, media: media}
}

// next is the composed body with another name.
func (g *generator) next() ([]byte, error) {
	name := names.SimpleNameGenerator.GenerateName(g.base)
	if g.media == protobuf {
		raw, ok := rawProto(g.body)
		if !ok {
			return g.compose(g.body)
		}
		named, err := nameProto(raw.Raw, name)
		if err != nil {
			return nil, refusedBody(err)
		}
		raw.Raw = named
		encoded, err := raw.Marshal()
		if err != nil {
			return nil, refusedBody(err)
		}
		return g.compose(append([]byte(protoMagic), encoded...))
	}
	named, err := wire.WithName(g.body, name)
	if err != nil {
		return nil, refusedBody(err)
	}
	return g.compose(named)
}

// nameProto sets the name of an encoded object: field 1 of any object is its
// ObjectMeta, and field 1 of that the name, of which the last one counts.
func nameProto(object []byte, name string) ([]byte, error) {
	for at := 0; at < len(object); {
		number, kind, n := protowire.ConsumeField(object[at:])
		if n < 0 {
			return nil, protowire.ParseError(n)
		}
		if number != 1 || kind != protowire.BytesType {
			at += n
			continue
		}
		_, _, head := protowire.ConsumeTag(object[at:])
		meta, n2 := protowire.ConsumeBytes(object[at+head:])
		if n2 < 0 {
			return nil, protowire.ParseError(n2)
		}
		meta = protowire.AppendString(protowire.AppendTag(withoutField(meta, 1), 1, protowire.BytesType), name)
		out := protowire.AppendBytes(protowire.AppendTag(bytes.Clone(object[:at]), 1, protowire.BytesType), meta)
		return append(out, object[at+n:]...), nil
	}
	return nil, errors.New("the object has no metadata")
}

// withoutField drops a field of an encoded message.
func withoutField(message []byte, drop protowire.Number) []byte {
	var out []byte
	for at := 0; at < len(message); {
		number, _, n := protowire.ConsumeField(message[at:])
		if n < 0 {
			return append(out, message[at:]...)
		}
		if number != drop {
			out = append(out, message[at:at+n]...)
		}
		at += n
	}
	return out
}

// protoMagic begins every object in Kubernetes' protobuf form.
const protoMagic = "k8s\x00"

func rawProto(body []byte) (*runtime.Unknown, bool) {
	rest, ok := bytes.CutPrefix(body, []byte(protoMagic))
	if !ok {
		return nil, false
	}
	raw := &runtime.Unknown{}
	return raw, raw.Unmarshal(rest) == nil
}
