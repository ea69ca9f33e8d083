package kubectl

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/kubectl/pkg/describe"

	"github.com/a4s-io/a4s/internal/space"
)

// describeTenants makes kubectl's descriptions say the tenant of what the
// administrators of the cluster see under a composite name.
func describeTenants() {
	describe.DescriberFn = func(
		getter genericclioptions.RESTClientGetter, mapping *meta.RESTMapping,
	) (describe.ResourceDescriber, error) {
		d, err := describe.Describer(getter, mapping)
		return describer{d}, err
	}
}

// describer adds the tenant to a description.
type describer struct{ describe.ResourceDescriber }

// Describe implements describe.ResourceDescriber.
func (d describer) Describe(namespace, name string, settings describe.DescriberSettings) (string, error) {
	text, err := d.ResourceDescriber.Describe(namespace, name, settings)
	if err != nil {
		return text, err
	}
	return withTenant(text, tenantOf(namespace, name)), nil
}

// tenantOf is the tenant in the names of an object, "" if there is none.
func tenantOf(namespace, name string) string {
	tenant, _ := space.SplitClusterName(name)
	if namespace != "" {
		tenant, _ = space.SplitNamespace(namespace)
	}
	if space.IsSystem(tenant) {
		return ""
	}
	return tenant
}

// withTenant puts the tenant in front of what follows name and namespace, with
// its value below theirs.
func withTenant(text, tenant string) string {
	if tenant == "" {
		return text
	}
	var head strings.Builder
	const label = "Tenant:"
	column := len(label) + 1
	for _, begin := range []string{"Name:", "Namespace:"} {
		if line, rest, _ := strings.Cut(text, "\n"); strings.HasPrefix(line, begin) {
			value := strings.TrimLeft(line[len(begin):], " ")
			column = max(column, len(line)-len(value))
			fmt.Fprintln(&head, line)
			text = rest
		}
	}
	fmt.Fprintf(&head, "%-*s%s\n", column, label, tenant)
	return head.String() + text
}
