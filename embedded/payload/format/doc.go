// Package format is the form of the payload archive: a zstd-compressed tar of
// the programs that a4s carries, and a manifest in the form of sha256sum(1)
// that names the archive's own hash and the hash of every file in it.
//
// Invariants: the same files always give the same bytes; a file under bin/ is
// executable, any other is not; paths are relative, clean and unique; a reader
// never returns a file whose hash differs from the manifest's.
//
// The payload builder (scripts/payload) writes it and embedded/payload reads
// it. It imports no package of a4s.
package format
