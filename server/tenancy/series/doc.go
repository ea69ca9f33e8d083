// Package series takes away the series of metrics that name what is gone.
//
// Upstream's metrics have labels for the group of a custom resource, for a webhook and
// for a policy, and keep every series until the process ends. Tenants choose these
// names, and can choose new ones for ever.
//
// Invariants: only series are taken away whose label names something that is in no space
// any more. What upstream counts is not changed otherwise. Nothing is done while nothing
// goes.
//
// server/tenancy may import it.
package series
