// Command vmguest makes what virtual machines of pods boot, out of a Debian
// package of a kernel: vmlinuz, and initrd.img with the modules that the guest
// needs, in the order in which they are to be loaded. a4s adds the init program.
//
// Usage, from the root of the repository:
//
//	go run ./scripts/vmguest [--package NAME | --deb FILE] [--out DIR]
//
// It needs Debian's apt-get, apt-cache and dpkg-deb; no root.
package main
