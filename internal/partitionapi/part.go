package partitionapi

import "context"

// PartHeader of a list or watch of everything, by a user of the system, asks for what
// one service group holds: its tenants and the system. The value is the group, which has
// to be that of the server. Without it the answer is complete.
const PartHeader = "A4s-Part"

type partKey struct{}

// WithPart asks for what the group of this server holds in place of everything.
func WithPart(ctx context.Context) context.Context { return context.WithValue(ctx, partKey{}, true) }

// AsksForPart reports whether a request asks for what the group holds.
func AsksForPart(ctx context.Context) bool {
	asks, _ := ctx.Value(partKey{}).(bool)
	return asks
}
