package admission

import (
	"context"
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
	resourcelisters "k8s.io/client-go/listers/resource/v1"
	core "k8s.io/kubernetes/pkg/apis/core"
	resourceapi "k8s.io/kubernetes/pkg/apis/resource"

	"github.com/a4s-io/a4s/server/tenancy/tenants/allowances"
)

// deviceRules say what devices the pods of a tenant have.
type deviceRules struct {
	permits
	classes resourcelisters.DeviceClassLister // set before the API server serves
}

// checkClaim looks at the devices that a claim asks for, or one that is made
// from a template, whoever makes it.
func (r *deviceRules) checkClaim(
	ctx context.Context, tenant string, spec *resourceapi.ResourceClaimSpec, at string,
) error {
	for i := range spec.Devices.Requests {
		request, path := &spec.Devices.Requests[i], fmt.Sprintf("%s.devices.requests[%d]", at, i)
		if exactly := request.Exactly; exactly != nil {
			path := path + ".exactly"
			if exactly.AdminAccess != nil && *exactly.AdminAccess {
				if err := r.checkAdminAccess(ctx, tenant, path+".adminAccess"); err != nil {
					return err
				}
			}
			if err := r.checkRequest(ctx, tenant, path, exactly.DeviceClassName, exactly.Tolerations); err != nil {
				return err
			}
		}
		for j := range request.FirstAvailable {
			of := &request.FirstAvailable[j]
			if err := r.checkRequest(ctx, tenant, fmt.Sprintf("%s.firstAvailable[%d]", path, j), of.DeviceClassName,
				of.Tolerations); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkRequest looks at what all requests have.
func (r *deviceRules) checkRequest(
	ctx context.Context, tenant, path, class string, tolerations []resourceapi.DeviceToleration,
) error {
	if err := r.checkDeviceClass(ctx, tenant, path+".deviceClassName", class); err != nil {
		return err
	}
	tolerated, err := r.allowed(ctx, tenant, allowances.Tolerations)
	if err != nil {
		return err
	}
	for i, t := range tolerations {
		switch {
		case tolerated.Has(t.Key): // with "*" the empty key, too
		case t.Key == "":
			return fmt.Errorf("%s.tolerations[%d] tolerates every taint: name the keys of the taints", path, i)
		default:
			return fmt.Errorf("%s.tolerations[%d] tolerates the taint %s, which keeps devices for others: leave it "+
				"out; an administrator of the cluster allows the key by %s of the tenant", path, i, t.Key,
				allowances.Field(allowances.Tolerations))
		}
	}
	return nil
}

// checkAdminAccess: with it a pod gets devices that others use.
func (r *deviceRules) checkAdminAccess(ctx context.Context, tenant, what string) error {
	value, err := r.tenants.Allowance(ctx, tenant, allowances.DeviceAdminAccess)
	if err != nil {
		return err
	}
	may, err := allowances.ParseFlag(value)
	if err != nil {
		return fmt.Errorf("%s of tenant %s: %w", allowances.Field(allowances.DeviceAdminAccess), tenant, err)
	}
	if !may {
		return fmt.Errorf("%s gives access to devices that others use, so an administrator of the cluster has to "+
			"allow it by %s of the tenant", what, allowances.Field(allowances.DeviceAdminAccess))
	}
	return nil
}

// checkNamespace looks at the label by which upstream lets the claims of a
// namespace have that access, under its present name and former ones.
func (r *deviceRules) checkNamespace(ctx context.Context, tenant string, namespace, old *core.Namespace) error {
	for key, value := range namespace.Labels {
		domain, name, _ := strings.Cut(key, "/")
		if name != "admin-access" || domain != "resource.kubernetes.io" && domain != resourcev1.GroupName {
			continue
		}
		if old != nil {
			if was, ok := old.Labels[key]; ok && was == value {
				continue
			}
		}
		if err := r.checkAdminAccess(ctx, tenant, "the label "+key); err != nil {
			return err
		}
	}
	return nil
}

func (r *deviceRules) checkDeviceClass(ctx context.Context, tenant, path, class string) error {
	classes, err := r.allowed(ctx, tenant, allowances.DeviceClasses)
	if err != nil || !classes.Said || classes.Has(class) {
		return err
	}
	return fmt.Errorf("%s: the DeviceClass %s is not one of this space's: %s", path, class, classes)
}

// checkPod looks at resources of a pod by which the scheduler makes a
// claim for it. Old is nil for a new pod.
func (r *deviceRules) checkPod(ctx context.Context, tenant string, pod, old *core.Pod) error {
	if old != nil && equality.Semantic.DeepEqual(old.Spec, pod.Spec) {
		return nil
	}
	classes, err := r.allowed(ctx, tenant, allowances.DeviceClasses)
	if err != nil || !classes.Said {
		return err
	}
	for _, name := range resourcesOf(&pod.Spec) {
		found, err := r.classesOf(name)
		if err != nil {
			return err
		}
		for _, class := range found {
			if !classes.Has(class) {
				return fmt.Errorf("the resource %s is of the DeviceClass %s, which is not one of this space's: %s",
					name, class, classes)
			}
		}
	}
	return nil
}

// resourcesOf are the names of all resources that a pod asks for.
func resourcesOf(spec *core.PodSpec) []core.ResourceName {
	seen := map[core.ResourceName]bool{}
	var names []core.ResourceName
	add := func(lists ...core.ResourceList) {
		for _, list := range lists {
			for name := range list {
				if !seen[name] {
					seen[name] = true
					names = append(names, name)
				}
			}
		}
	}
	for _, containers := range [][]core.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			add(containers[i].Resources.Requests, containers[i].Resources.Limits)
		}
	}
	for i := range spec.EphemeralContainers {
		add(spec.EphemeralContainers[i].Resources.Requests, spec.EphemeralContainers[i].Resources.Limits)
	}
	if spec.Resources != nil {
		add(spec.Resources.Requests, spec.Resources.Limits)
	}
	add(spec.Overhead)
	return names
}

// classesOf are the classes whose devices a resource of pods stands for: the
// one that its name names, or those that say the name.
func (r *deviceRules) classesOf(name core.ResourceName) ([]string, error) {
	if class, ok := strings.CutPrefix(string(name), resourcev1.ResourceDeviceClassPrefix); ok {
		return []string{class}, nil
	}
	all, err := r.classes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("looking for the device classes of %s: %w", name, err)
	}
	var found []string
	for _, class := range all {
		if extended := class.Spec.ExtendedResourceName; extended != nil && *extended == string(name) {
			found = append(found, class.Name)
		}
	}
	return found, nil
}
