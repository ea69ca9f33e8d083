package partitionapi

import "context"

const (
	// PartHeader of a list or watch of everything, by a user of the system, asks for what
	// one service group holds: its tenants and the system. The value is the group, which
	// has to be that of the server. Without it the answer is complete. Components of a4s ask
	// for streams instead; this is how administrators, and tests of whole servers, see what
	// the servers of a group hold.
	PartHeader = "A4s-Part"
	// StreamHeader of a watch of everything, by a user of the system, asks for one stream
	// of those that make a complete watch together: the value is a group, whose tenants'
	// events it has, or Rest. Each event is in one stream only, that of the group that
	// owned the tenant at its revision, whatever moves. Every server has every stream. The
	// answer has the header, too, unless the resource is not split: then it is complete.
	//
	// A list of everything with this header has what the stream has at the revision of the
	// list. Lists of all streams at one revision are complete together.
	StreamHeader = "A4s-Stream"
	// StreamsHeader of the answer to such a list names the streams that there are at its
	// revision, with commas.
	StreamsHeader = "A4s-Streams"
	// Rest is the stream of the system and of tenants that no group owns. No group has
	// this name.
	Rest = "-"
)

type (
	partKey   struct{}
	streamKey struct{}
)

const (
	// GroupLabel says the service group of the servers that an object is about.
	GroupLabel = "a4s.io/service-group"
	// GroupsAnnotation of the endpoints of the API has the groups of its subsets, in
	// their order and with commas.
	GroupsAnnotation = "a4s.io/service-groups"
)

// WithPart asks for what the group of this server holds in place of everything.
func WithPart(ctx context.Context) context.Context { return context.WithValue(ctx, partKey{}, true) }

// AsksForPart reports whether a request asks for what the group holds.
func AsksForPart(ctx context.Context) bool {
	asks, _ := ctx.Value(partKey{}).(bool)
	return asks
}

// +k8s:deepcopy-gen=false

// Stream is one of the streams of a watch of everything.
type Stream struct {
	// Group is whose tenants it has, or Rest.
	Group string
	// Split is called before a watch begins, if there is such a stream.
	Split func()
	// Listed is called before a list is given, if there is such a stream, with all that there
	// are at the revision of the list. It is nil for a watch.
	Listed func(streams []string)
}

// WithStream asks for a stream in place of everything.
func WithStream(ctx context.Context, s Stream) context.Context {
	return context.WithValue(ctx, streamKey{}, s)
}

// AskedStream is the stream that a request asks for.
func AskedStream(ctx context.Context) (s Stream, ok bool) {
	s, ok = ctx.Value(streamKey{}).(Stream)
	return s, ok
}
