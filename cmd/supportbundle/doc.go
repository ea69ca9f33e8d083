// Package supportbundle is `a4s support-bundle`: what a report of a bug needs of a cluster and of
// this machine, in one file that can be given to others.
//
// Invariants: of an object no text is taken but that of the fields in a table (reduce.go), and no
// Secret at all; every file passes a scrubber that knows the secrets of this machine and the forms
// of others; what is taken is bounded in bytes and time, whatever there is, and what is cut or left
// out is said in the bundle and to who made it. Only a file that does not exist is written.
//
// Only main imports it. It imports package cmd for what was asked for, and nothing of Kubernetes'
// server.
package supportbundle
