package tenantapi

import (
	"encoding/json"
	"testing"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// TestProtectionBeforeTemplates: what was written while the protection was true or false reads as what it was,
// and false, which was left out then, as nothing said.
func TestProtectionBeforeTemplates(t *testing.T) {
	for name, tc := range map[string]struct {
		protobuf []byte // of a spec
		json     string
		want     *bool
	}{
		"true":     {[]byte{10 << 3, 1}, `{"deletionProtection":true}`, new(true)},
		"false":    {[]byte{10 << 3, 0}, `{"deletionProtection":false}`, new(false)},
		"left out": {nil, `{}`, nil},
	} {
		// field 2 of a Tenant is its spec
		data := append([]byte{2<<3 | 2, byte(len(tc.protobuf))}, tc.protobuf...)
		var stored Tenant
		if err := stored.Unmarshal(data); err != nil ||
			!apiequality.Semantic.DeepEqual(stored.Spec.DeletionProtection, tc.want) {
			t.Errorf("%s: %v, %v", name, stored.Spec.DeletionProtection, err)
		}
		var read Tenant
		if err := json.Unmarshal([]byte(`{"spec":`+tc.json+`}`), &read); err != nil ||
			!apiequality.Semantic.DeepEqual(read.Spec.DeletionProtection, tc.want) {
			t.Errorf("%s of JSON: %v, %v", name, read.Spec.DeletionProtection, err)
		}
		again, err := stored.Marshal()
		var back Tenant
		if err != nil || back.Unmarshal(again) != nil ||
			!apiequality.Semantic.DeepEqual(back.Spec.DeletionProtection, tc.want) {
			t.Errorf("%s, again: %v, %v", name, back.Spec.DeletionProtection, err)
		}
	}
}
