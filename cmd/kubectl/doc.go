// Package kubectl is upstream's kubectl, in the space that a command is about:
// that of --tenant, of the manifests it is given, or of the kubeconfig.
//
// Invariants: upstream's commands are used as they are, through the places
// that they leave for it: the flags of the configuration, the commands of the
// tree, the function that makes describers. A command works in one space. What
// names two is refused before anything is sent; what needs no server is not.
//
// Only main imports it. It imports kubectl, package cmd for what was asked for,
// and nothing of Kubernetes' server.
package kubectl
