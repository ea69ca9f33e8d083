package limits

import (
	"context"

	flowcontrol "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/server/httplog"
	utilflowcontrol "k8s.io/apiserver/pkg/util/flowcontrol"
	fq "k8s.io/apiserver/pkg/util/flowcontrol/fairqueuing"
	fcrequest "k8s.io/apiserver/pkg/util/flowcontrol/request"

	"github.com/a4s-io/a4s/internal/space"
)

// Annotation is the key in audit events that names the tenant.
const Annotation = "a4s.io/tenant"

// tenantOf is whom a request concerns: the space it is addressed to, or that
// of the user, or that of the namespace in the composite view. It does not
// depend on who asks it when, because an annotation is written once.
func tenantOf(ctx context.Context) string {
	if tenant, ok := space.FromContext(ctx); ok {
		return tenant
	}
	if u, ok := request.UserFrom(ctx); ok {
		if tenant := space.TenantOf(u); !space.IsSystem(tenant) {
			return tenant
		}
	}
	if info, ok := request.RequestInfoFrom(ctx); ok && info.IsResourceRequest {
		tenant, _ := space.SplitNamespace(info.Namespace)
		return tenant
	}
	return space.System
}

// Authorizer names the tenant in the audit event of every request that gets
// as far as to be judged, whatever the judgement is.
func Authorizer(inner authorizer.Authorizer) authorizer.Authorizer {
	return authorizer.AuthorizerFunc(func(
		ctx context.Context, a authorizer.Attributes,
	) (authorizer.Decision, string, error) {
		annotate(ctx)
		return inner.Authorize(ctx, a)
	})
}

func annotate(ctx context.Context) {
	if tenant := tenantOf(ctx); !space.IsSystem(tenant) {
		audit.AddAuditAnnotation(ctx, Annotation, tenant)
	}
}

// Fairness names the tenant in the audit event of requests that priority and
// fairness turns away before they are judged, and in the access log.
func Fairness(inner utilflowcontrol.Interface) utilflowcontrol.Interface { return named{inner} }

type named struct{ utilflowcontrol.Interface }

// Handle implements utilflowcontrol.Interface.
func (n named) Handle(ctx context.Context, digest utilflowcontrol.RequestDigest,
	note func(*flowcontrol.FlowSchema, *flowcontrol.PriorityLevelConfiguration, string),
	estimate func() fcrequest.WorkEstimate, queueNote fq.QueueNoteFn, exec func(),
) {
	if tenant := tenantOf(ctx); !space.IsSystem(tenant) {
		audit.AddAuditAnnotation(ctx, Annotation, tenant)
		httplog.AddKeyValue(ctx, "tenant", tenant)
	}
	n.Interface.Handle(ctx, digest, note, estimate, queueNote, exec)
}
