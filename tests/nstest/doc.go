// Package nstest runs a test inside network and mount namespaces of its own,
// so that tests of links, firewall rules and mounts cannot touch the machine; and parts of a test in
// further network namespaces, as pods have them.
//
// Invariants: the test body runs in a child process that has no network
// interface but a loopback, and whose mounts propagate nowhere; without root
// the test is skipped and says so.
//
// Only tests may import it. It imports no Kubernetes code.
package nstest
