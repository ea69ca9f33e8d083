// Package clients proves a4s with the clients that people use: kubectl, Helm
// and a manager of controller-runtime, each as released and each in a tenant.
//
// It is a module of its own, so that what these clients depend on stays out of
// the module of a4s, of which it imports nothing: a4s is the program that
// A4S_BINARY names.
//
// Invariants: everything runs in mount, process and network namespaces of its
// own, with all files in memory, and ends with the test process, however that
// ended: nothing is left on the machine, and nothing there is changed. No pod
// runs, as there is no node: tests do not wait for readiness.
//
// The controllers of Flux and Argo CD have modules of their own below gitops, as
// they need other versions. `make test-gitops` builds and runs them; `make
// test-clients` leaves them out, as the build takes long.
//
// Besides the tests it has the program operator, which the end-to-end tests
// run in pods. Nothing imports it.
package clients
