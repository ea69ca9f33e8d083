package serving

import "context"

type partKey struct{}

// WithPart asks for what the group of this server holds in place of everything.
func WithPart(ctx context.Context) context.Context { return context.WithValue(ctx, partKey{}, true) }

// part reports whether a request asks for what the group holds.
func part(ctx context.Context) bool {
	asks, _ := ctx.Value(partKey{}).(bool)
	return asks
}
