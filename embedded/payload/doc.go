// Package payload carries the programs that a4s runs beside itself (the
// containerd shim, runc, the CNI plugins), the sandbox image and the init program
// of virtual machines, and extracts them.
//
// Invariants: a payload lives at <data dir>/data/<sha256 of the archive>, so a
// new version never touches the files of an old one; the directory appears
// whole or not at all; every start checks every file and replaces one that is
// not as it was built, without touching the inode that a running process may
// hold; an old version is removed only when no process runs from it, because
// the pods of a running shim outlive a restart of a4s.
//
// Programs for people (crictl) are in an archive of their own, by the same rules, so that a start neither
// writes nor checks them: they are extracted when somebody runs one.
//
// The agent's wiring and that of commands import it. The package compiles without a payload; then
// Extract says so.
package payload
