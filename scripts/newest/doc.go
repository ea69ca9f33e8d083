// Command newest lists every part that a4s pins: the toolchain, the modules that
// it and its tools require directly, and what is built beside them, each with its
// version, the newest one, the dates of both, the days since the pinned one was
// published, and the days that a newer one has been waiting.
//
// Invariants: it asks the go command only, so what it sees is what a build would
// get, and it changes nothing. Another major version of a module is another
// module, which it cannot know of. Nobody imports it; `make newest` runs it.
package main
