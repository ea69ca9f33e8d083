// Command payload builds the programs that the a4s binary carries and packs
// them into embedded/payload/archive/ARCH.
//
// It runs from the root of the repository, with the build settings of
// Makefile.env. The Makefile calls it when one of its inputs has changed; it
// replaces its output only when the content is another one, so that an equal
// payload does not cause the big binary to be linked again.
package main
