// Package clientfile gives a transport of this process to programs inside it that take
// no client, but the path of a kubeconfig: kube-proxy and flannel.
//
// client-go lets a kubeconfig name a plugin for its user's credentials, and has the plugin
// wrap the transport of every client that is made of the file. The plugin is found in a
// registry of the process, so only this package registers one, and each under a name that
// no other process and no other registration has.
//
// Invariants: credentials and CA of the file are used as without the plugin; the file is
// good for nothing outside the process that wrote it, and says so by the name of the plugin;
// a registration lasts as long as the process.
//
// The agent wiring may import it. Of Kubernetes it imports client-go only.
package clientfile
