// Package fairness lets API priority and fairness tell tenants apart: the
// requests of a tenant are one flow, whoever of it sends them, so that a flood
// of one tenant waits in queues of its own.
//
// Before that, requests take turns on the processors: see fairqueue. Those of a
// flood are served behind all others: see nice.
//
// The flow schema and priority level that match are in manifests/fairness.yaml.
//
// Only server may import it.
package fairness
