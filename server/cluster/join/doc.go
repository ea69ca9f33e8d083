// Package joining is what a server without data does to become another one of
// a cluster: it asks a running server for what all of them share.
//
// Invariants: the server token is shown only to who has proved to hold a
// certificate of the CA that the token pins; a setting on which servers must
// agree and do not is an error that names its flag; nothing is written here.
//
// Only server may import it. It imports no Kubernetes code.
package join
