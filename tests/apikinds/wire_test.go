package apikinds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// golden is an object as JSON, and as it stands in datastores.
type golden struct {
	JSON     json.RawMessage `json:"json"`
	Protobuf []byte          `json:"protobuf"`
}

// TestWireForm: objects with something in every field are read from what was once written,
// and are written so.
func TestWireForm(t *testing.T) {
	later := laterFields()
	for name, typ := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			testWire(t, typ, name)
			for i, fields := range later[name] {
				text := string(testWire(t, typ, fmt.Sprintf("%s.%d", name, i+2)).JSON)
				for _, f := range fields {
					if !strings.Contains(text, `"`+f+`":`) {
						t.Errorf("no sample has %s", f)
					}
				}
			}
		})
	}
}

// laterFields are those that kinds got after their first samples; the second one has the first of them, and so on.
func laterFields() map[string][][]string {
	both := []string{"podSecurity", "allow", "deletionProtection"}
	return map[string][][]string{
		"Tenant":         {append([]string{"authentication"}, both...), {"access", "from"}},
		"TenantTemplate": {both, {"secrets", "from", "access"}},
	}
}

// testWire reads and writes one sample.
func testWire(t *testing.T, typ reflect.Type, sample string) (g golden) {
	t.Helper()
	file := filepath.Join("testdata", sample+".json")
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && *update {
		data = record(t, file, filled(t, typ, 1))
	} else if err != nil {
		t.Fatalf("%v: a new kind is recorded by -update", err)
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	want, got := reflect.New(typ).Interface().(stored), reflect.New(typ).Interface().(stored)
	if err := json.Unmarshal(g.JSON, want); err != nil {
		t.Fatal(err)
	}
	if err := got.Unmarshal(g.Protobuf); err != nil {
		t.Fatal(err)
	}
	if !apiequality.Semantic.DeepEqual(got, want) {
		t.Errorf("reads\n%+v, want\n%+v", got, want)
	}
	if data, err := want.Marshal(); err != nil || !bytes.Equal(data, g.Protobuf) {
		t.Errorf("writes\n%x, %v, want\n%x", data, err, g.Protobuf)
	}
	return g
}

func record(t *testing.T, file string, obj stored) []byte {
	t.Helper()
	text, err := json.Marshal(obj)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := obj.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(golden{text, encoded})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(data, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
	return data
}

// TestEveryFieldIsEncoded: whatever the fields have, they come back.
func TestEveryFieldIsEncoded(t *testing.T) {
	for name, typ := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			for seed := range int64(50) {
				in, out := filled(t, typ, seed), reflect.New(typ).Interface().(stored)
				data, err := in.Marshal()
				if err != nil {
					t.Fatal(err)
				}
				if err := out.Unmarshal(data); err != nil {
					t.Fatal(err)
				}
				if !apiequality.Semantic.DeepEqual(in, out) {
					t.Fatalf("came back as\n%+v, was\n%+v", out, in)
				}
				fills(t, in, data)
			}
		})
	}
}

// fills checks that an object knows its size, and writes to both ends of a buffer.
func fills(t *testing.T, in stored, want []byte) {
	t.Helper()
	b := make([]byte, in.Size()+5)
	if n, err := in.MarshalTo(b); err != nil || !bytes.Equal(b[:n], want) {
		t.Fatalf("MarshalTo = %d, %v", n, err)
	}
	b = make([]byte, in.Size()+5)
	if n, err := in.MarshalToSizedBuffer(b); err != nil || !bytes.Equal(b[len(b)-n:], want) {
		t.Fatalf("MarshalToSizedBuffer = %d, %v", n, err)
	}
	if _, err := in.MarshalTo(make([]byte, len(want)-1)); err == nil {
		t.Fatal("MarshalTo wrote into a buffer that is too small")
	}
}
