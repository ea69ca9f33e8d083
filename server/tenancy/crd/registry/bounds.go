package registry

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/server/tenancy/crd"
)

// forgotten is how long it takes at most until a CRD that is written is
// known.
const forgotten = 10 * time.Second

// bounded keeps the CRDs of a tenant to their bounds: what a server makes
// of a CRD is much larger than the CRD, and is made for whoever
// writes one.
type bounded struct {
	bounds func(tenant string) crd.Bounds
	sizes  func(tenant string) map[string]crd.Size

	mu sync.Mutex
	// recent are those that were allowed and are not known yet, by tenant and
	// name: many at once must not be more than one after the other.
	recent map[string]map[string]recent
}

type recent struct {
	size crd.Size
	at   time.Time
}

// checkSize refuses what is beyond the bounds of a tenant, unless it is less
// than before.
func (b *bounded) checkSize(obj, old runtime.Object) field.ErrorList {
	object, ok := obj.(*apiextensions.CustomResourceDefinition)
	if !ok {
		return nil
	}
	tenant, name := space.SplitClusterName(object.Name)
	if tenant == space.System {
		return nil
	}
	size, err := sizeOf(object)
	if err != nil {
		return field.ErrorList{field.InternalError(field.NewPath("spec"), err)}
	}
	if before, ok := old.(*apiextensions.CustomResourceDefinition); ok {
		if was, err := sizeOf(before); err == nil && size.Bytes <= was.Bytes &&
			size.Schemas <= was.Schemas && size.Patterns <= was.Patterns {
			return nil
		}
	}
	bounds := b.bounds(tenant)
	b.mu.Lock()
	defer b.mu.Unlock()
	known := b.known(tenant)
	_, there := known[name]
	delete(known, name)
	all := size
	for _, other := range known {
		all.Bytes += other.Bytes
		all.Schemas += other.Schemas
		all.Patterns += other.Patterns
	}
	var errs field.ErrorList
	refuse := func(path *field.Path, format string, args ...any) {
		errs = append(errs, field.Forbidden(path, fmt.Sprintf(format, args...)))
	}
	spec := field.NewPath("spec")
	if n := int64(len(known)) + 1; n > bounds.CRDs && !there && old == nil {
		refuse(field.NewPath("metadata", "name"),
			"a tenant can have %d CRDs, and this would be the %dth", bounds.CRDs, n)
	}
	for _, of := range []struct {
		what, more  string
		size, bound crd.Size
	}{
		{"a CRD", "", size, bounds.One},
		{"all CRDs of a tenant", "; an administrator of the cluster can raise spec.limits." +
			tenantapi.LimitDefinitionBytes + " of the Tenant, from which the number of fields follows",
			all, bounds.All},
	} {
		if of.size.Bytes > of.bound.Bytes {
			refuse(spec, "%s can have %d bytes, and this would be %d%s", of.what, of.bound.Bytes, of.size.Bytes,
				of.more)
		}
		if of.size.Schemas > of.bound.Schemas {
			refuse(spec.Child("versions"), "%s can have %d fields and other schemas in all versions, "+
				"and this would be %d%s", of.what, of.bound.Schemas, of.size.Schemas, of.more)
		}
		if of.size.Patterns > of.bound.Patterns {
			refuse(spec.Child("versions"), "the patterns of %s can have %d steps in all versions, and this would "+
				"be %d: what is repeated, as in [a-z]{1,1000}, counts each time", of.what, of.bound.Patterns,
				of.size.Patterns)
		}
	}
	if len(errs) == 0 {
		if b.recent[tenant] == nil {
			b.recent[tenant] = map[string]recent{}
		}
		b.recent[tenant][name] = recent{size, time.Now()}
	}
	return errs
}

// known are the sizes of all that a tenant has or was allowed just now.
func (b *bounded) known(tenant string) map[string]crd.Size {
	known := b.sizes(tenant)
	if known == nil {
		known = map[string]crd.Size{}
	}
	for name, r := range b.recent[tenant] {
		if time.Since(r.at) > forgotten || known[name] == r.size {
			delete(b.recent[tenant], name)
			continue
		}
		known[name] = r.size
	}
	if len(b.recent[tenant]) == 0 {
		delete(b.recent, tenant)
	}
	return known
}

func sizeOf(object *apiextensions.CustomResourceDefinition) (crd.Size, error) {
	var out apiextensionsv1.CustomResourceDefinition
	if err := apiextensionsv1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(object,
		&out, nil); err != nil {
		return crd.Size{}, fmt.Errorf("measuring the definition: %w", err)
	}
	return crd.SizeOf(&out), nil
}
