// Package hosts makes machines for end-to-end tests out of one machine: a
// Host is a set of namespaces (mount, process, network, UTS, IPC, cgroup) with
// its own /proc, /sys, /run, state directories and cgroup root, connected by a
// veth pair to the bridge of its Lab. What runs in it sees a whole machine.
//
// Invariants: nothing of a Host is visible in the namespaces of the machine
// but its end of the veth pair, a cgroup in each hierarchy and one temporary
// directory, all named by Prefix; the first process of a Host ends when the
// test process does, however that ended, and takes all others with it; a Lab
// removes what a killed earlier run left before it makes anything. One Lab at
// a time runs on a machine. A test binary that uses the package must call
// Init first in its TestMain, as it is also the first process of each Host.
//
// Only tests may import it. It imports nothing of Kubernetes.
package hosts
