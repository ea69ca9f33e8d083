// Package filter is the scheduler's plugin TenantNodes: a pod goes only to a node that runs
// pods of its tenant (package nodes). What it refuses, the events of the pod say.
//
// Invariants: the decision is made in each cycle, so that a change counts for pods that wait;
// evicting others never helps a pod that it refuses; pods that wait are tried again when
// labels of a node or spec.scheduling of a Tenant have changed.
//
// Only server/tenancy may import it.
package filter
