// Command mkimage builds a container image from Go packages of this repository,
// Debian packages and files, without a container runtime or a registry, and
// writes it as an OCI archive that containerd imports:
//
//	go run ./scripts/mkimage --name docker.io/a4s/web:1 --go ./tests/images/web=/web \
//	    --deb curl --deb ca-certificates --entrypoint /web --out web.tar
//
// Debian packages come with all they depend on, from the archives that apt is
// configured for, and are unpacked without running their maintainer scripts.
// What it downloads is kept in a cache that several runs can share.
package main
