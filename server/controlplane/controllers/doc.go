// Package controllers runs upstream's controller manager in this process.
//
// Invariants: upstream's leader election is off, because upstream ends its
// process when it loses a lease, and server/cluster/election takes its place; the controllers of the
// cluster use a service account each, as upstream's default roles expect; no
// port is opened, the process' metrics are served by the API server.
//
// The garbage collector sees owners as package owners has them, also where the
// settings want upstream's own manager. The types in policies are checked by the kinds of
// the space that a policy is in; upstream's own manager knows those of Kubernetes alone.
//
// Known limit: a run that fails while upstream builds its controllers cannot be
// repeated in the same process, see run.
//
// Only server may import it.
package controllers
