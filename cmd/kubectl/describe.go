package kubectl

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/kubernetes"
	"k8s.io/kubectl/pkg/describe"

	"github.com/a4s-io/a4s/internal/partitionapi"
	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/partition/allocations"
)

// describeTenants makes kubectl's descriptions say the tenant of what the
// administrators of the cluster see under a composite name.
func describeTenants() {
	describe.DescriberFn = func(
		getter genericclioptions.RESTClientGetter, mapping *meta.RESTMapping,
	) (describe.ResourceDescriber, error) {
		d, err := describe.Describer(getter, mapping)
		if err != nil {
			return nil, err
		}
		config, err := getter.ToRESTConfig()
		if err != nil {
			return nil, err
		}
		client, err := kubernetes.NewForConfig(config)
		return describer{d, mapping.Resource, client}, err
	}
}

// describer adds to a description what is a4s's own.
type describer struct {
	describe.ResourceDescriber
	resource schema.GroupVersionResource
	client   kubernetes.Interface
}

// Describe implements describe.ResourceDescriber.
func (d describer) Describe(namespace, name string, settings describe.DescriberSettings) (string, error) {
	text, err := d.ResourceDescriber.Describe(namespace, name, settings)
	if err != nil {
		return text, err
	}
	if text, err = d.extend(text, namespace, name); err != nil {
		return "", err
	}
	return withTenant(text, tenantOf(namespace, name)), nil
}

// extend adds what upstream does not know of the endpoints of the API and of nodes.
func (d describer) extend(text, namespace, name string) (string, error) {
	core := d.resource.Group == ""
	switch {
	case core && d.resource.Resource == "endpoints" && namespace == metav1.NamespaceDefault && name == "kubernetes":
		e, err := d.client.CoreV1().Endpoints(namespace).Get(context.Background(), name, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		return withGroups(text, e.Annotations[partitionapi.GroupsAnnotation]), nil
	case core && d.resource.Resource == "nodes":
		data, err := d.client.CoreV1().RESTClient().Get().Resource(allocations.Resource).Name(name).
			DoRaw(context.Background())
		var a allocations.NodeAllocation
		if err != nil || json.Unmarshal(data, &a) != nil {
			return text, nil //nolint:nilerr // the node is of a cluster of one partition, or of another one
		}
		return withShares(text, a.Shares), nil
	}
	return text, nil
}

// withGroups says of which service group each subset of addresses is, as the seed shows it.
func withGroups(text, annotation string) string {
	groups := strings.Split(annotation, ",")
	const begin, label = "  Addresses:", "  Service Group Id:"
	if annotation == "" || strings.Count(text, "\n"+begin) != len(groups) {
		return text
	}
	var out strings.Builder
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, begin); ok {
			column := len(line) - len(strings.TrimLeft(value, " "))
			fmt.Fprintf(&out, "%-*s %s\n", max(column-1, len(label)), label, groups[0])
			groups = groups[1:]
		}
		out.WriteString(line)
	}
	return out.String()
}

// withShares says what the pods of each partition take of a node: its own partition has the
// pods of none but its own tenants.
func withShares(text string, shares []allocations.Share) string {
	if len(shares) == 0 {
		return text
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 8, 2, ' ', 0)
	fmt.Fprint(w, "Requested by pods of all partitions:\n",
		"  Partition\tPods\tCPU\tMemory\n", "  ---------\t----\t---\t------\n")
	for _, s := range shares {
		fmt.Fprintf(w, "  %s\t%d\t%s\t%s\n", s.Partition, s.Pods, s.Requests.Cpu(), s.Requests.Memory())
	}
	_ = w.Flush() // to a string
	before, events, found := strings.Cut(text, "\nEvents:")
	if !found {
		return text + out.String()
	}
	return before + "\n" + out.String() + "Events:" + events
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
