// Package fairness lets API priority and fairness tell tenants apart: the
// requests of a tenant are one flow, whoever of it sends them, so that an
// overload by one tenant waits in queues of its own.
//
// Before that, requests wait for a seat on the processors: see fairqueue.
//
// The flow schema and priority level that match are in manifests/fairness.yaml.
//
// Only server may import it.
package fairness
