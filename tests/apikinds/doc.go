// Package apikinds tests what all kinds that a4s adds to the API have in common: how they
// are encoded and copied.
//
// Invariants: what testdata holds was written by releases of a4s and is read for ever. A
// new kind adds files; a file that is there does not change.
//
// Nothing imports it. It imports the packages of the kinds, and nothing of Kubernetes'
// server.
package apikinds
