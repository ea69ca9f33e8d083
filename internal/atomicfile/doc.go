// Package atomicfile writes whole files so that a reader, a crash or a full
// disk never sees half of one.
//
// Invariants: the content and its mode are complete and on stable storage
// before the name points at them; a failed write leaves the old file as it
// was and no temporary file behind, and is a *problem.Precondition: a full or
// read-only disk, or a directory that is not ours.
//
// Any package may import it. It imports no Kubernetes code.
package atomicfile
