// Package kubeconfig writes kubeconfig files for a4s' own clients and for the
// administrator.
//
// Invariants: a file appears whole and with its final mode, because it may
// embed a private key; nothing is read from an existing kubeconfig.
//
// server, agent and cmd may import it. Of Kubernetes it imports only the
// kubeconfig types of client-go.
package kubeconfig
