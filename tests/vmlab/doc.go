// Package lab is a small Linux guest for tests of virtual machines: a shell
// that answers on a virtio-serial port.
//
// Its kernel, modules and busybox are those that tests/vm/image.sh keeps below
// the user's cache directory; a test that needs them is skipped where they are
// missing and says so.
//
// Only tests may import it. It imports no Kubernetes code.
package vmlab
