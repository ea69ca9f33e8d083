package ingress

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/addons/gateway"
)

// takeBackGateways takes back what was written of Gateways: what waits for a controller says so, and the class goes.
func (w writer) takeBackGateways(ctx context.Context, objects dynamic.Interface) error {
	if objects == nil {
		return nil
	}
	api := gatewayAPI{}
	for resource, versions := range gatewayVersions() {
		api[resource] = versions[0]
	}
	all := func(resource string) ([]unstructured.Unstructured, error) {
		list, err := objects.Resource(api.resource(resource)).List(ctx, metav1.ListOptions{})
		if apierrors.IsNotFound(err) {
			return nil, nil // there is no such CRD
		}
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", resource, err)
		}
		return list.Items, nil
	}
	classes, err := all(resourceClasses)
	ours := classesIn(api, classes)
	if err != nil || len(ours.classes) == 0 {
		return err
	}
	errs := []error{}
	routeBack := func(route *unstructured.Unstructured) map[string]any {
		parents, left := parentsOfOthers(route)
		if !left {
			return nil
		}
		return map[string]any{"parents": parents}
	}
	for resource, back := range map[string]func(*unstructured.Unstructured) map[string]any{
		resourceGateways: func(gw *unstructured.Unstructured) map[string]any {
			class, _, _ := unstructured.NestedString(gw.Object, "spec", "gatewayClassName")
			if gw.GetNamespace() == "" || !ours.ours(space.OfNamespace(gw.GetNamespace()), class) ||
				hasItem(gw, "type", string(gatewayv1.GatewayConditionProgrammed), "reason",
					string(gatewayv1.GatewayReasonPending), "status", "conditions") {
				return nil
			}
			return map[string]any{"addresses": nil, "listeners": nil, "conditions": waiting()}
		},
		resourceRoutes:     routeBack,
		resourceGRPCRoutes: routeBack,
		resourceTLSRoutes:  routeBack,
	} {
		items, err := all(resource)
		errs = append(errs, err)
		for i := range items {
			if status := back(&items[i]); status != nil {
				err := patchStatus(ctx, objects.Resource(api.resource(resource)), &items[i],
					map[string]any{"status": status})
				if err != nil {
					errs = append(errs, fmt.Errorf("writing the status of %s %s/%s: %w", resource,
						items[i].GetNamespace(), items[i].GetName(), err))
				}
			}
		}
	}
	if err := errors.Join(errs...); err != nil || ours.classes[gateway.ClassName] == nil {
		return err
	}
	// It is the last one, as without it nothing here is known to be ours.
	err = objects.Resource(api.resource(resourceClasses)).Delete(ctx, gateway.ClassName, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting the GatewayClass: %w", err)
	}
	return nil
}

// classesIn are those of this controller.
func classesIn(api gatewayAPI, all []unstructured.Unstructured) gateways {
	ours := newGateways(&gatewaySource{api: api})
	for i := range all {
		named, _, _ := unstructured.NestedString(all[i].Object, "spec", "controllerName")
		if named == gateway.ControllerName && all[i].GetNamespace() == "" { // else it is of a tenant's own CRD
			class := &gatewayv1.GatewayClass{}
			class.Spec.ControllerName = gateway.ControllerName
			ours.classes[all[i].GetName()] = class
		}
	}
	return ours
}

// waiting are the conditions of a Gateway that no controller has looked at.
func waiting() (out []any) {
	for _, of := range []gatewayv1.GatewayConditionType{gatewayv1.GatewayConditionAccepted,
		gatewayv1.GatewayConditionProgrammed} {
		out = append(out, map[string]any{"type": string(of), "status": string(metav1.ConditionUnknown),
			"reason": string(gatewayv1.GatewayReasonPending), "message": "Waiting for controller",
			"lastTransitionTime": metav1.Now().UTC().Format("2006-01-02T15:04:05Z")})
	}
	return out
}

// parentsOfOthers are the parents in the status of a route that other controllers wrote; left says that some are not.
func parentsOfOthers(route *unstructured.Unstructured) (others []any, left bool) {
	parents, _, _ := unstructured.NestedSlice(route.Object, "status", "parents")
	others = []any{}
	for _, parent := range parents {
		of, _ := parent.(map[string]any)
		if of["controllerName"] == gateway.ControllerName {
			left = true
		} else {
			others = append(others, parent)
		}
	}
	return others, left
}
