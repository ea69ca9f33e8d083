// Package noplugins answers for the loader of shared libraries in the program, which
// is linked statically and cannot load any: with the one of the C library the linker
// warns that the program would need the libraries of the machine that built it. Of
// what is linked, only the decryption of images with the key of a hardware token asks
// for one (PKCS #11, by way of containerd), and is told that it cannot be loaded.
//
// Invariants: only main imports it.
package noplugins
