// Package host finds out what this machine allows, so that containerd and
// the kubelet are configured for it: cgroup version, init system, the right
// to lower OOM scores, the limit of open files, a resolver file that pods
// can use.
//
// Invariants: it only reads; both containerd and the kubelet must be given
// the same Info, because they have to agree on the cgroup driver.
//
// Packages under agent/ and cmd may import it. It imports no Kubernetes code.
package host
