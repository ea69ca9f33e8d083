// Command guest is process 1 of the virtual machines that pods run in. It is
// static, is started by the kernel from the initial RAM disk as /init, and is
// carried by a4s.
//
// It answers calls of its host (embedded/guest/protocol) on a virtio-serial
// port. Containers go on whether or not there is a host.
package main
