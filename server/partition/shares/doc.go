// Package shares lets the schedulers of several tenant partitions share nodes without
// giving out more than a node has.
//
// Each partition has a share of the NodeAllocation that the resource partition keeps for
// the node: the sum over its own pods there. A scheduler writes the share with the new pod
// in it before it binds the pod, with the version of the object that it has checked: if
// another one was faster, it reads again and checks again. The accountant sets shares to
// what the pods really are, which also counts pods that no scheduler placed. What others
// have is one pod a node in the cache of the scheduler, so that all plugins see it.
//
// Invariants:
//   - no pod is bound unless own and other shares together fit into what the node can give;
//   - nothing goes to a node whose resource partition does not answer, and a resource
//     partition that hangs holds a pod up for no longer than two seconds;
//   - the pod that stands for others has the highest priority, so nothing preempts it, and
//     a node of its own for ever: upstream ends the process if a known pod moves.
//
// Only server may import it.
package shares
