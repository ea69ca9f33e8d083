// Package registries turns the private registries file, in k3s's format,
// into what containerd reads: one hosts.toml per registry (mirrors and TLS)
// and credentials for the CRI image service.
//
// Invariants: a mistake in the file is a *problem.Input that names the file
// and the key; nothing that the file asks for is dropped silently. containerd
// cannot rewrite repository names by regular expression, so a rewrite is
// accepted only where it adds a path prefix to every name, which hosts.toml
// can express. The directory that Write fills belongs to this package, and can
// be written while containerd reads it, which it does for each pull. Followed
// reads the file again when it changes; a file with a mistake changes nothing.
// Credentials are in containerd's own configuration, which it reads when it
// starts.
//
// Packages under agent/ and cmd may import it. It imports no Kubernetes code.
package registries
