// Package deploy applies manifests to the API and keeps it as they say: those
// that a server carries, at its start, and those that the administrator puts
// into the directory server/manifests, whenever they change.
//
// Invariants:
//   - Objects are applied server-side, in the name of their file.
//   - A record in the API, one ConfigMap a file, knows what the file has brought.
//     It is written before anything is applied, so that nothing is forgotten.
//   - Only what a file has brought, what still has fields in its name and what
//     no other file has is deleted, and only after everything that is in the
//     file was applied. A file that cannot be read changes nothing.
//   - Applying is idempotent: several servers may do it at once.
//
// Only server may import it.
package deploy
