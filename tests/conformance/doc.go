// Command conformance runs the conformance tests of Kubernetes, unchanged, from
// the kubeconfig of a tenant's administrator and from that of the system:
//
//	make conformance
//
// It makes a server and an agent from bin/a4s (package hosts), gives their nodes
// the images that the tests name, and runs upstream's test program in a third
// machine, which has nothing but the kubeconfig. The module in suite pins that
// program; images.go says what each image is made of, as there may be no registry.
//
// What it prints at last is how many tests passed, and by name those that did
// not: the ones that docs/reference/conformance.md lists with the reason, and others. It
// ends with 1 when a test fails that is not listed, or one passes that is.
//
// Invariants: nothing but the kubeconfig differs from a run against any cluster;
// no test is left out, those that are expected to fail run as well; nothing is
// left on the machine, however the run ends. What it builds, and each run's
// reports and logs, are below bin/conformance.
//
// Nothing imports it.
package main
