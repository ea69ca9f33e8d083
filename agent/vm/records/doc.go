// Package records keeps what the VM runtime knows of its pods and containers
// on disk, one JSON file each.
//
// Invariants: a record is complete or absent, whatever happens to the machine
// while it is written; a file that cannot be read is reported and left alone,
// it never hides the others.
//
// agent/vm may import it. It imports no Kubernetes server code.
package records
