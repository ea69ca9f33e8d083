// Package snapshots saves a control plane, on a schedule and on demand, and
// makes a server directory out of what was saved.
//
// Invariants: a snapshot has all that a server needs to start, its
// certificates, tokens and keys too; a restore changes nothing before the
// whole file was read and found right, prepares the new server directory
// beside the old one and exchanges the two in one step, and never deletes what
// was there; the restored datastore is a new cluster, whose revisions are far
// above those that clients may remember.
//
// server and main may import it. It imports no Kubernetes code.
package snapshots
