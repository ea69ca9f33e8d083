// Command bom writes the bill of materials of a4s: what is in the binary and
// in the programs that it carries, in CycloneDX form, and the licences of all
// that with their texts.
//
//	bom --binary dist/a4s-linux-amd64 --payload embedded/payload/archive/amd64/payload.tar.zst \
//	    --tools embedded/payload/archive/amd64/tools.tar.zst \
//	    --policy scripts/bom/licenses.yaml --out dist/a4s-linux-amd64
//
// It reads the modules from the binaries themselves, as the linker wrote them
// there, not from go.mod: what is listed is what is shipped. C libraries that
// are linked in are listed with the versions of the Debian packages that are
// installed.
//
// Invariants: the same binaries give the same bytes; a licence that the policy
// does not allow, or that is not recognized, is an error that names the module;
// so is a decision of the policy that no module needs any more.
//
// It is a module of its own, so that what recognizes licences is no dependency
// of a4s.
package main
