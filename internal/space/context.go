package space

import "context"

type contextKey struct{}

// WithTenant marks a request of the API server as addressed to one space.
// Storage narrows lists and watches to it, authorization judges by its roles.
// No mark means the composite view of the whole cluster, which only system
// users and components of the cluster get.
func WithTenant(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, contextKey{}, tenant)
}

// FromContext is the space that a request is addressed to.
func FromContext(ctx context.Context) (tenant string, ok bool) {
	tenant, ok = ctx.Value(contextKey{}).(string)
	return tenant, ok
}
