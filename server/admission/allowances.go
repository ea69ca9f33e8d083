package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Annotations of a Tenant by which administrators of the cluster allow what the
// tenant cannot do otherwise. Each is a list with commas, "*" stands for
// everything; what cannot be read allows nothing.
const (
	// VolumeTypes are further sources of volumes, in pods and in persistent
	// volumes, by their names in the API: nfs, iscsi, ...
	VolumeTypes = "a4s.io/volume-types"
	// CSIDrivers are the drivers of persistent volumes that the tenant writes.
	CSIDrivers = "a4s.io/csi-drivers"
	// HostPorts are ports of nodes that pods may take: 8080,9000-9010.
	HostPorts = "a4s.io/host-ports"
	// NodeNames, "true", lets pods say their node.
	NodeNames = "a4s.io/node-names"
	// Tolerations are keys of taints of nodes that are not for everybody.
	Tolerations = "a4s.io/tolerations"
	// PriorityClasses, RuntimeClasses and StorageClasses are those that may be
	// used. Without the last two, all may be.
	PriorityClasses = "a4s.io/priority-classes"
	RuntimeClasses  = "a4s.io/runtime-classes"
	StorageClasses  = "a4s.io/storage-classes"
)

// allowance is a list in an annotation of a Tenant.
type allowance struct {
	said  bool
	items []string
}

func (a allowance) has(item string) bool {
	return slices.Contains(a.items, item) || slices.Contains(a.items, "*")
}

// allowed reads an allowance of a tenant.
func (g *guard) allowed(ctx context.Context, tenant, key string) (allowance, error) {
	value, err := g.tenants.Annotation(ctx, tenant, key)
	if err != nil || value == "" {
		return allowance{}, err
	}
	a := allowance{said: true}
	for item := range strings.SplitSeq(value, ",") {
		a.items = append(a.items, strings.TrimSpace(item))
	}
	return a, nil
}

// ValidateAllowances refuses annotations of a Tenant that could not be read:
// whoever writes them should hear of it, not the users of the tenant.
func ValidateAllowances(annotations map[string]string) error {
	var errs []error
	for _, key := range []string{VolumeTypes, CSIDrivers, Tolerations, PriorityClasses, RuntimeClasses, StorageClasses} {
		if value, ok := annotations[key]; ok && slices.ContainsFunc(strings.Split(value, ","), func(s string) bool { return strings.TrimSpace(s) == "" }) {
			errs = append(errs, fmt.Errorf("%s: %q is not a list of names with commas between them", key, value))
		}
	}
	if value, ok := annotations[VolumeTypes]; ok {
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); name != "*" && !slices.Contains(volumeTypes(), name) {
				errs = append(errs, fmt.Errorf("%s: there are no volumes of the type %q, only %s", VolumeTypes, name, strings.Join(volumeTypes(), ", ")))
			}
		}
	}
	if value, ok := annotations[HostPorts]; ok {
		if _, err := parsePorts(value); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", HostPorts, err))
		}
	}
	for _, key := range []string{NodeNames, LoadBalancers} {
		if value, ok := annotations[key]; ok && value != "true" && value != "false" {
			errs = append(errs, fmt.Errorf("%s: %q is neither true nor false", key, value))
		}
	}
	return errors.Join(errs...)
}

// parsePorts reads ports and ranges of them.
func parsePorts(value string) ([]utilnet.PortRange, error) {
	var out []utilnet.PortRange
	for item := range strings.SplitSeq(value, ",") {
		r, err := utilnet.ParsePortRange(strings.TrimSpace(item))
		if err != nil || r.Size == 0 {
			return nil, fmt.Errorf("%q is neither a port nor a range of ports such as 9000-9010", item)
		}
		out = append(out, *r)
	}
	return out, nil
}

// withoutAllowedPorts takes the ports of nodes that the tenant may have out of
// a copy of the pod, which is then judged by what is left.
func (g *guard) withoutAllowedPorts(ctx context.Context, tenant string, spec *corev1.PodSpec) error {
	var ranges []utilnet.PortRange
	value, err := g.tenants.Annotation(ctx, tenant, HostPorts)
	if err != nil || value == "" {
		return err
	}
	if ranges, err = parsePorts(value); err != nil {
		return fmt.Errorf("the annotation %s of tenant %s: %w", HostPorts, tenant, err)
	}
	clear := func(ports []corev1.ContainerPort) {
		for i := range ports {
			if slices.ContainsFunc(ranges, func(r utilnet.PortRange) bool { return r.Contains(int(ports[i].HostPort)) }) {
				ports[i].HostPort = 0
			}
		}
	}
	for i := range spec.Containers {
		clear(spec.Containers[i].Ports)
	}
	for i := range spec.InitContainers {
		clear(spec.InitContainers[i].Ports)
	}
	return nil
}

// flag reads an annotation that is true or not.
func (g *guard) flag(ctx context.Context, tenant, key string) (bool, error) {
	value, err := g.tenants.Annotation(ctx, tenant, key)
	if err != nil || value == "" {
		return false, err
	}
	set, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("the annotation %s of tenant %s: %w", key, tenant, err)
	}
	return set, nil
}
