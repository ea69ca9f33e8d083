// Package charts installs what HelmCharts say, as k3s' helm-controller does: those of the system in this process,
// those of tenants in confined ones.
//
// Invariants:
//   - A chart of the system has the rights of an administrator in the space of the system: its clients are on the path
//     of that space, where nothing of a tenant is.
//   - A chart of a tenant has the rights of the tenant's administrator in the space of that tenant, by a certificate
//     with the UID of the Tenant, which its process has not. Nothing of it is read in this process, but the name, the
//     UID and the revision of its HelmChart.
//   - One server does it at a time, and for each HelmChart one thing at a time; for each tenant, too.
//   - A cluster without a HelmChart costs two watches. Helm, its caches and further watches begin with the first one.
//   - The CRDs of both kinds are never deleted here: with them all HelmCharts would go.
//
// server/addons and main.go may import it.
package charts
