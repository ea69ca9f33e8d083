// Package datastore is the interface between the control plane and whatever
// keeps its objects: embedded etcd (embedded/etcd), a database behind kine
// (embedded/kine), or an etcd that somebody else runs (External). It remembers
// which one a server has, so that nobody loses sight of their objects by starting
// it with another.
//
// Invariants: the control plane reaches its datastore only as an etcd client,
// through Endpoint or, if it is a sole member in its process, by its own
// servers; a datastore is a critical component, the process ends
// when it does; Check never changes what is on disk; two servers that do not
// share their keys never work on the same datastore.
//
// Only server and the commands for snapshots may import it. It imports no
// Kubernetes code.
package datastore

import (
	"context"

	"github.com/a4s-io/a4s/internal/component"
)

// Endpoint is how an etcd v3 client reaches a datastore.
type Endpoint struct {
	// URLs are the client URLs.
	URLs []string
	// CAFile, CertFile and KeyFile are PEM files for mutual TLS.
	CAFile, CertFile, KeyFile string
}

// Datastore keeps the objects of the control plane.
type Datastore interface {
	// Check finds out, before anything is started, whether the datastore can
	// start on what is there. It returns a *problem.Precondition for a
	// damaged or unusable data directory and a *problem.Input for a setting.
	Check(ctx context.Context) error
	// Component returns the supervised datastore. It is ready when it serves
	// linearizable reads.
	Component() component.Component
	// Endpoint returns how to reach it once it is ready.
	Endpoint() Endpoint
}
