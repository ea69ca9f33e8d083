// Package images puts images that are on disk into containerd: the sandbox
// image that a4s carries, and every archive and pull list that the operator
// put into agent/images, before the kubelet starts or later.
//
// Invariants: an image that Import has read is visible to CRI when Import
// returns, and is pinned, so that the kubelet does not collect what cannot be
// pulled again. An archive that has not changed since it was read and whose
// images are still there is not read again. An archive that comes or changes
// while a4s runs is read when nobody writes to it, and has the same done for
// it. A broken archive of the operator is logged with its name, once until it
// changes, and stops nothing; a broken required one is an error. Files of the
// operator are never changed.
//
// Packages under agent/ and cmd may import it. It imports no Kubernetes
// server code.
package images
