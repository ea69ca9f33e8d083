// Package archive gets the archive of a chart: from the object itself, a file of this server, a URL, a repository or
// an OCI registry.
//
// Invariants:
//   - What is downloaded is bounded in size and in time, and ends with the context.
//   - Nothing of the machine is used: no cache, no configuration of Helm or Docker, no program that keeps credentials.
//   - Credentials go to the host that they are for, by the same scheme and port, and to no other unless the source
//     says so; also when a server sends elsewhere. No error has them in its text.
//   - A file is one below the directory that the caller gives.
//
// Only server/addons/charts and its reconcile may import it.
package archive
