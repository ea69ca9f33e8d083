// Package resourcemetrics serves the API metrics.k8s.io, which says what nodes
// and pods use: for `kubectl top` and for autoscalers. Nodes are asked and
// rates computed by the libraries of metrics-server; the API is one of the
// groups of the API server, in its process.
//
// Invariants: nothing is stored, and no object is kept that the API server does
// not keep anyway; a node says of its own pods only; a list that is
// addressed to a space has pods of that space only.
//
// Only server may import it.
package resourcemetrics
