// Package localstorage provisions persistent volumes that are directories of
// nodes, for claims of the class local-path. It runs the library of the
// storage maintainers in this process, and tells nodes by the supervisor which
// directories to make and to remove; agent/localstorage does it there.
//
// A volume goes through three states, which are in its annotation State: none,
// made (the node has the directory), removed (it has it no longer). A volume
// object is let go only when its directory is removed, or its node is gone for
// good. A directory that was made once is never made again: that its data was
// lost has to show.
//
// Invariants: the volume of a tenant's claim is an object of the tenant's own
// space, and no directory is named but by the composite name of its volume,
// which nobody else can have. A node learns of its own volumes only, and can
// change nothing but their state.
//
// Only server may import it, and server/tenancy/admission for the names.
package localstorage
