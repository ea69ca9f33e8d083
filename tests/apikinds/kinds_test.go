package apikinds

import (
	"flag"
	"math/rand"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/randfill"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/partition/allocations"
)

var update = flag.Bool("update", false, "write the files of kinds that have none in testdata")

// stored is what the serializer of the API asks of a kind.
type stored interface {
	runtime.Object
	runtime.ProtobufMarshaller
	runtime.ProtobufReverseMarshaller
	Marshal() ([]byte, error)
	Unmarshal([]byte) error
	Reset()
}

// kinds are all that a4s adds to version v1, by their names.
func kinds(t *testing.T) map[string]reflect.Type {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		tenantapi.AddToScheme, partitionapi.AddToScheme, allocations.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	known := s.KnownTypes(schema.GroupVersion{Version: "v1"})
	if len(known) != 16 {
		t.Errorf("%d kinds, want 16", len(known))
	}
	return known
}

// filled is an object of the type with something in every field, always the same for a seed.
func filled(t *testing.T, typ reflect.Type, seed int64) stored {
	t.Helper()
	obj, ok := reflect.New(typ).Interface().(stored)
	if !ok {
		t.Fatalf("%v does not encode itself", typ)
	}
	randfill.New().RandSource(rand.NewSource(seed)).NilChance(0).NumElements(1, 3).MaxDepth(20).Funcs(
		func(m *metav1.TypeMeta, _ randfill.Continue) { *m = metav1.TypeMeta{} }, // is not in protobuf
		name[string], name[types.UID], name[corev1.ResourceName], name[corev1.Protocol],
		name[corev1.TolerationOperator], name[corev1.TaintEffect],
		name[metav1.ConditionStatus], name[metav1.ManagedFieldsOperationType],
		name[tenantapi.Phase], name[tenantapi.CRDPolicy], name[tenantapi.NodeAccess],
		name[tenantapi.AccessFormat],
		name[partitionapi.Role], name[partitionapi.PlacementPhase],
		func(at *metav1.Time, c randfill.Continue) { *at = metav1.NewTime(time.Unix(c.Int63n(1<<32), 0)) },
		func(q *resource.Quantity, c randfill.Continue) {
			// In its usual form, as one that comes back has its text.
			*q = resource.MustParse(resource.NewMilliQuantity(1+c.Int63n(1e12), resource.DecimalSI).String())
		},
		func(f *metav1.FieldsV1, c randfill.Continue) { f.SetRawString(`{"f:x":{}}`) },
		func(e *runtime.RawExtension, _ randfill.Continue) {
			*e = runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap"}`)}
		},
	).Fill(obj)
	return obj
}

// name is never empty.
func name[T ~string](s *T, c randfill.Continue) {
	var b strings.Builder
	for range 1 + c.Intn(12) {
		b.WriteByte("abcdefghijklmnopqrstuvwxyz0123456789-./"[c.Intn(39)])
	}
	*s = T(b.String())
}
