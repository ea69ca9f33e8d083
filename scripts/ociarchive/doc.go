// Package ociarchive writes a container image of one platform and one layer as
// an OCI layout in a tar archive, the form that containerd imports.
//
// Invariants: the same Image always gives the same bytes (fixed times, sorted
// entries), so that an archive can be named by its hash and rebuilt anywhere;
// every path in the layer is clean, relative and inside the image's root; the
// index names the image by its full reference, without which the kubelet would
// not find it after an import.
//
// Any package may import it. It imports only the standard library.
package ociarchive
