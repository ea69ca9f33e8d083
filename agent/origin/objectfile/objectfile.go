package objectfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/a4s-io/a4s/internal/atomicfile"
)

// Empty is the content of a file that says there is nothing.
const Empty = `{"items":[]}`

// file is what is on disk.
type file struct {
	Items []runtime.RawExtension `json:"items"`
}

// Read returns the objects of a file, which are all of one kind. The error is
// fs.ErrNotExist if there is no file.
func Read(path string, kind schema.GroupVersionKind) ([]runtime.Object, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var f file
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, err
	}
	objs := make([]runtime.Object, 0, len(f.Items))
	for _, raw := range f.Items {
		obj, got, err := scheme.Codecs.UniversalDeserializer().Decode(raw.Raw, nil, nil)
		if err != nil {
			return nil, err
		}
		if *got != kind {
			return nil, fmt.Errorf("it holds a %s", got)
		}
		objs = append(objs, obj)
	}
	return objs, nil
}

// Write puts objects, whose kind is set, into a file.
func Write(path string, objs []runtime.Object) error {
	f := file{Items: []runtime.RawExtension{}}
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), runtime.ContentTypeJSON)
	if !ok {
		return errors.New("no serializer for JSON")
	}
	for _, obj := range objs {
		var raw bytes.Buffer
		if err := info.Serializer.Encode(obj, &raw); err != nil {
			return err
		}
		f.Items = append(f.Items, runtime.RawExtension{Raw: raw.Bytes()})
	}
	data, err := json.Marshal(f)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, append(data, '\n'), 0o600)
}
