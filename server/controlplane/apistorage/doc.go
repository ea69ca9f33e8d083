// Package apistorage has what upstream makes the storage of a resource with.
//
// Invariants: what upstream passes as arguments is named here and nowhere else, and arrives
// whole in a storage that is made around another; nothing here knows a kind.
//
// What makes or wraps storages in server/ imports it.
package apistorage
