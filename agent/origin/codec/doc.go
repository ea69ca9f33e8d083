// Package codec decodes requests and answers of the API and makes answers that no
// server gave, for the parts of agent/origin.
//
// Invariant: it knows formats and no resources.
//
// agent/origin and the packages below it may import it. It imports no Kubernetes
// server code.
package codec
