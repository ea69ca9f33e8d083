// Package release installs, upgrades and uninstalls the release of a chart with Helm's library.
//
// Invariants:
//   - Releases are where Helm has them, in Secrets or ConfigMaps of the namespace: the program helm sees them.
//   - Nothing of the machine is used: no kubeconfig, no cache, no environment.
//   - When the context ends no request is sent any more. What was under way stays pending; Next says what follows.
//   - Nothing is kept from one action to the next: discovery, charts and rendered objects go with the Client.
//   - A template runs in this process, with nothing that bounds its time or its memory: a tenant's is run where the
//     process is bounded.
//
// Only server/addons/charts/reconcile may import it.
package release
