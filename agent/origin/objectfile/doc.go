// Package objectfile keeps a collection of objects of one kind in a file. It is the
// format of the checkpoints of a node, and says when they are written.
//
// Invariants: a file is replaced as a whole or not at all; what cannot be read as
// objects of the kind is an error, never a shorter collection.
//
// agent/origin and the packages below it may import it. It imports no Kubernetes
// server code.
package objectfile
