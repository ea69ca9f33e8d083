// Package charts installs what HelmCharts of the system space say, as k3s' helm-controller does, in this process.
//
// Invariants:
//   - Only HelmCharts of the system space are acted on, and a chart has the rights of an administrator in that space:
//     both clients are on the path of the system space, where nothing of a tenant is.
//   - One server does it at a time, and for each HelmChart one thing at a time.
//   - What is to be done follows from the HelmChart and from the labels of the release alone: whoever takes over, and
//     a server that was killed and starts again, goes on from there.
//   - A cluster without a HelmChart costs one watch. Helm, its caches and further watches begin with the first one.
//   - The CRDs of both kinds are never deleted here: with them all HelmCharts would go.
//
// server/addons may import it.
package charts
