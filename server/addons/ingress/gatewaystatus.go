package ingress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/addons/gateway"
)

// gatewayObjects are those of a space whose status is written.
type gatewayObjects struct {
	api        gatewayAPI
	classes    []*gatewayv1.GatewayClass
	gateways   []*gatewayv1.Gateway
	routes     []*gatewayv1.HTTPRoute
	grpcRoutes []*gatewayv1.GRPCRoute
}

// objects are those of a space.
func (g *gateways) objects(tenant string) gatewayObjects {
	out := gatewayObjects{api: g.api}
	for name, class := range g.classes {
		owner, _ := space.SplitClusterName(name)
		if (owner == tenant || space.IsSystem(owner) && space.IsSystem(tenant)) &&
			class.Spec.ControllerName == gateway.ControllerName {
			out.classes = append(out.classes, class)
		}
	}
	if of := g.spaces[tenant]; of != nil {
		out.gateways = slices.Collect(maps.Values(of.gateways))
		out.routes = slices.Collect(maps.Values(of.routes))
		out.grpcRoutes = slices.Collect(maps.Values(of.grpcRoutes))
	}
	return out
}

// makeGatewayClass makes the class once, when the Gateway API comes to be served.
func (l *Leader) makeGatewayClass(ctx context.Context, api gatewayAPI) error {
	l.mu.Lock()
	made := l.classMade
	l.classMade = api != nil
	l.mu.Unlock()
	if made || api == nil {
		return nil
	}
	class := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.resource(resourceClasses).GroupVersion().String(), "kind": "GatewayClass",
		"metadata": map[string]any{"name": gateway.ClassName},
		"spec": map[string]any{"controllerName": gateway.ControllerName,
			"description": "Requests are taken at ports 80 and 443 of the nodes"},
	}}
	_, err := l.c.Objects.Resource(api.resource(resourceClasses)).Create(ctx, class, metav1.CreateOptions{})
	if err == nil || apierrors.IsAlreadyExists(err) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.classMade = false
	return fmt.Errorf("making the GatewayClass %s: %w", gateway.ClassName, err)
}

// gatewayStatus writes the status of the classes, Gateways and routes of a space.
func (l *Leader) gatewayStatus(ctx context.Context, tenant string, of gatewayObjects, r *result) error {
	var errs []error
	if space.IsSystem(tenant) {
		errs = append(errs, l.makeGatewayClass(ctx, of.api))
	}
	for _, class := range of.classes {
		errs = append(errs, l.patchStatus(ctx, of.api, resourceClasses, class, class.Status, classStatus(class)))
	}
	for _, gw := range of.gateways {
		if now := r.gatewayStatus(gw); now != nil {
			errs = append(errs, l.patchStatus(ctx, of.api, resourceGateways, gw, gw.Status, *now))
		}
	}
	for _, route := range of.routes {
		now := route.Status
		now.Parents = r.parents(gateway.KindHTTP, route, route.Status.Parents)
		errs = append(errs, l.patchStatus(ctx, of.api, resourceRoutes, route, route.Status, now))
	}
	for _, route := range of.grpcRoutes {
		now := route.Status
		now.Parents = r.parents(gateway.KindGRPC, route, route.Status.Parents)
		errs = append(errs, l.patchStatus(ctx, of.api, resourceGRPCRoutes, route, route.Status, now))
	}
	return errors.Join(errs...)
}

func classStatus(class *gatewayv1.GatewayClass) gatewayv1.GatewayClassStatus {
	now := *class.Status.DeepCopy()
	accepted := metav1.Condition{Type: string(gatewayv1.GatewayClassConditionStatusAccepted),
		Status: metav1.ConditionTrue, Reason: string(gatewayv1.GatewayClassReasonAccepted),
		Message: "requests are taken at ports 80 and 443 of the nodes", ObservedGeneration: class.Generation}
	if class.Spec.ParametersRef != nil {
		accepted.Status, accepted.Reason = metav1.ConditionFalse, string(gatewayv1.GatewayClassReasonInvalidParameters)
		accepted.Message = "spec.parametersRef: this controller has no parameters"
	}
	meta.SetStatusCondition(&now.Conditions, accepted)
	return now
}

func (r *result) gatewayStatus(gw *gatewayv1.Gateway) *gatewayv1.GatewayStatus {
	if r.gateway == nil {
		return nil
	}
	return r.gateway.Gateways[types.NamespacedName{Namespace: gw.Namespace, Name: gw.Name}]
}

// parents are those of a route: what other controllers wrote, and what is known here.
func (r *result) parents(
	kind string, route metav1.Object, written []gatewayv1.RouteParentStatus,
) []gatewayv1.RouteParentStatus {
	out := []gatewayv1.RouteParentStatus{}
	for _, parent := range written {
		if parent.ControllerName != gateway.ControllerName {
			out = append(out, parent)
		}
	}
	if r.gateway == nil {
		return out
	}
	name := types.NamespacedName{Namespace: route.GetNamespace(), Name: route.GetName()}
	known := r.gateway.Routes[name]
	if kind == gateway.KindGRPC {
		known = r.gateway.GRPCRoutes[name]
	}
	problems := r.problems[routeSource(kind, name).key]
	for _, parent := range known {
		if len(problems) > 0 { // what the space has of everything together
			parent = *parent.DeepCopy()
			meta.SetStatusCondition(&parent.Conditions, metav1.Condition{
				Type: string(gatewayv1.RouteConditionAccepted), Status: metav1.ConditionFalse,
				Reason: problems[0].reason, Message: problems[0].message, ObservedGeneration: route.GetGeneration()})
		}
		out = append(out, parent)
	}
	return out
}

// patchStatus writes the status of the very object that was looked at, where it is another one.
func (l *Leader) patchStatus(
	ctx context.Context, api gatewayAPI, resource string, of metav1.Object, was, now any,
) error {
	if equality.Semantic.DeepEqual(was, now) {
		return nil
	}
	status, err := withoutOmissions(was, now)
	if err != nil {
		return fmt.Errorf("encoding the status of %s %s: %w", resource, of.GetName(), err)
	}
	text, err := json.Marshal(map[string]any{"status": status, "metadata": map[string]any{
		"uid": of.GetUID(), "resourceVersion": of.GetResourceVersion()}})
	if err != nil {
		return fmt.Errorf("encoding the status of %s %s: %w", resource, of.GetName(), err)
	}
	_, err = l.c.Objects.Resource(api.resource(resource)).Namespace(of.GetNamespace()).Patch(ctx, of.GetName(),
		types.MergePatchType, text, metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil // it is gone, or another one, which is looked at by itself; or of a CRD that has no such status
	}
	if err != nil {
		return fmt.Errorf("writing the status of %s %s/%s: %w", resource, of.GetNamespace(), of.GetName(), err)
	}
	return nil
}

// withoutOmissions is a status as a merge patch wants it: what was there and is not any more is null.
func withoutOmissions(was, now any) (map[string]any, error) {
	before, err := fieldsOf(was)
	if err != nil {
		return nil, err
	}
	after, err := fieldsOf(now)
	if err != nil {
		return nil, err
	}
	for key := range before {
		if _, ok := after[key]; !ok {
			after[key] = nil
		}
	}
	return after, nil
}

func fieldsOf(status any) (out map[string]any, err error) {
	text, err := json.Marshal(status)
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	return out, err
}
