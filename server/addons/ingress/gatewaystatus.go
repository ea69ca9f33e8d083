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
	"k8s.io/client-go/dynamic"
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
	tlsRoutes  []*gatewayv1.TLSRoute
}

// any reports whether there is something.
func (g *gatewayObjects) any() bool {
	return len(g.classes)+len(g.gateways)+len(g.routes)+len(g.grpcRoutes)+len(g.tlsRoutes) > 0
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
		out.tlsRoutes = slices.Collect(maps.Values(of.tlsRoutes))
	}
	return out
}

// makeGatewayClass makes the class once, when the Gateway API comes to be served.
func (l *Leader) makeGatewayClass(ctx context.Context, api gatewayAPI) error {
	if api == nil || l.classMade.Load() {
		return nil
	}
	class := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": api.resource(resourceClasses).GroupVersion().String(), "kind": "GatewayClass",
		"metadata": map[string]any{"name": gateway.ClassName},
		"spec": map[string]any{"controllerName": gateway.ControllerName,
			"description": "Requests are taken at ports 80 and 443 of the nodes"},
	}}
	_, err := l.c.Objects.Resource(api.resource(resourceClasses)).Create(ctx, class, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("making the GatewayClass %s: %w", gateway.ClassName, err)
	}
	l.classMade.Store(true)
	return nil
}

// errLater says that something is tried again, and that nobody needs to know why: somebody wrote between, or it is a
// tenant's own matter.
var errLater = errors.New("not now")

// gatewayStatus writes the status of the classes, Gateways and routes of a space.
func (l *Leader) gatewayStatus(ctx context.Context, tenant string, of gatewayObjects, r *result) error {
	if of.api == nil {
		return nil
	}
	if !of.any() && !space.IsSystem(tenant) {
		return nil
	}
	w := statusWriter{Leader: l, api: of.api, budget: l.budget(tenant)}
	if space.IsSystem(tenant) {
		if err := l.makeGatewayClass(ctx, of.api); err != nil {
			w.errs = append(w.errs, err)
		}
	}
	for _, class := range of.classes {
		w.write(ctx, resourceClasses, class, class.Status, classStatus(class))
	}
	for _, gw := range of.gateways {
		if now := r.gatewayStatus(gw); now != nil {
			w.write(ctx, resourceGateways, gw, gw.Status, *now)
		}
	}
	for _, route := range of.routes {
		now := route.Status
		now.Parents = r.parents(gateway.KindHTTP, route, route.Status.Parents)
		w.write(ctx, resourceRoutes, route, route.Status, now)
	}
	for _, route := range of.grpcRoutes {
		now := route.Status
		now.Parents = r.parents(gateway.KindGRPC, route, route.Status.Parents)
		w.write(ctx, resourceGRPCRoutes, route, route.Status, now)
	}
	for _, route := range of.tlsRoutes {
		now := route.Status
		now.Parents = r.parents(gateway.KindTLS, route, route.Status.Parents)
		w.write(ctx, resourceTLSRoutes, route, route.Status, now)
	}
	if wait := w.budget.wait; wait > 0 {
		l.statuses.AddAfter(tenant, wait)
	}
	return w.err(tenant)
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

// gatewayStatus is that of a Gateway, with the conditions that others wrote meanwhile.
func (r *result) gatewayStatus(gw *gatewayv1.Gateway) *gatewayv1.GatewayStatus {
	if r.gateway == nil {
		return nil
	}
	known := r.gateway.Gateways[types.NamespacedName{Namespace: gw.Namespace, Name: gw.Name}]
	if known == nil {
		return nil
	}
	now := *known
	now.AttachedListenerSets, now.Conditions = gw.Status.AttachedListenerSets, nil
	ours := func(of string) bool {
		return of == string(gatewayv1.GatewayConditionAccepted) || of == string(gatewayv1.GatewayConditionProgrammed)
	}
	for _, c := range known.Conditions {
		if ours(c.Type) {
			now.Conditions = append(now.Conditions, c)
		}
	}
	for _, c := range gw.Status.Conditions {
		if !ours(c.Type) && len(now.Conditions) < mostConditions {
			now.Conditions = append(now.Conditions, c)
		}
	}
	return &now
}

// parents are those of a route: what other controllers wrote, and what is known here.
func (r *result) parents(
	kind string, route metav1.Object, written []gatewayv1.RouteParentStatus,
) []gatewayv1.RouteParentStatus {
	out, ours := []gatewayv1.RouteParentStatus{}, []gatewayv1.RouteParentStatus{}
	for _, parent := range written {
		if parent.ControllerName != gateway.ControllerName {
			out = append(out, parent)
		} else {
			ours = append(ours, parent)
		}
	}
	if r.gateway == nil {
		return out
	}
	name := types.NamespacedName{Namespace: route.GetNamespace(), Name: route.GetName()}
	known := r.gateway.Entries(kind)[name]
	problems := r.problems[routeSource(kind, name).key]
	out = out[:min(len(out), mostParents-len(known))]
	for _, parent := range known {
		if len(problems) > 0 { // what the space has of everything together
			parent = *parent.DeepCopy()
			refuse(&parent, problems[0], route.GetGeneration(), ours)
		}
		out = append(out, parent)
	}
	return out
}

// mostParents is how many a route has in its status, and mostConditions how many conditions a Gateway has there.
const mostParents, mostConditions = 32, 8

// refuse has the entry of a parent say that the route is not accepted, since when it has done so.
func refuse(
	parent *gatewayv1.RouteParentStatus, why problem, generation int64, written []gatewayv1.RouteParentStatus,
) {
	now := metav1.Condition{Type: string(gatewayv1.RouteConditionAccepted), Status: metav1.ConditionFalse,
		Reason: why.reason, Message: why.message, ObservedGeneration: generation,
		LastTransitionTime: metav1.Now().Rfc3339Copy()}
	for i := range written {
		was := meta.FindStatusCondition(written[i].Conditions, now.Type)
		if was != nil && was.Status == now.Status &&
			equality.Semantic.DeepEqual(written[i].ParentRef, parent.ParentRef) {
			now.LastTransitionTime = was.LastTransitionTime
		}
	}
	meta.RemoveStatusCondition(&parent.Conditions, now.Type)
	parent.Conditions = append([]metav1.Condition{now}, parent.Conditions...)
}

// statusWriter writes the status of objects of one space.
type statusWriter struct {
	*Leader
	api    gatewayAPI
	budget *budget
	// raced says that somebody wrote an object between, which is about to be seen.
	raced bool
	errs  []error
}

// write writes the status of the very object that was looked at, where it is another one.
func (w *statusWriter) write(ctx context.Context, resource string, of metav1.Object, was, now any) {
	if equality.Semantic.DeepEqual(was, now) || !w.budget.spend(sizeOf(of)) {
		return
	}
	status, err := withoutOmissions(was, now)
	if err == nil {
		err = patchStatus(ctx, w.c.Objects.Resource(w.api.resource(resource)), of, map[string]any{"status": status,
			"metadata": map[string]any{"uid": of.GetUID(), "resourceVersion": of.GetResourceVersion()}})
	}
	switch {
	case apierrors.IsConflict(err):
		w.raced = true
	case err != nil:
		w.errs = append(w.errs, fmt.Errorf("writing the status of %s %s/%s: %w", resource, of.GetNamespace(),
			of.GetName(), err))
	}
}

// patchStatus changes the status of an object. One that is gone or another one is looked at by itself, and one of a
// tenant's own CRD need not have such a status.
func patchStatus(
	ctx context.Context, client dynamic.NamespaceableResourceInterface, of metav1.Object, patch map[string]any,
) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	_, err = client.Namespace(of.GetNamespace()).Patch(ctx, of.GetName(), types.MergePatchType, text,
		metav1.PatchOptions{}, "status")
	if apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return err
}

// err is what went wrong. What a tenant has made of its objects, such as ones that are too large, is nothing for the
// log of the cluster.
func (w *statusWriter) err(tenant string) error {
	err := errors.Join(w.errs[:min(len(w.errs), mostSaidErrors)]...)
	if err != nil && !space.IsSystem(tenant) {
		w.log.WithError(err).WithField("tenant", tenant).Debug("Gateways and routes are not all up to date")
		return errLater
	}
	if err == nil && w.raced {
		return errLater
	}
	return err
}

// mostSaidErrors is how many of a round are said.
const mostSaidErrors = 3

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
