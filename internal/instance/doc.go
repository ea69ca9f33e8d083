// Package instance is the identity of the a4s of a machine: it makes sure that
// one runs, lets `a4s killall` find it, tells processes of this machine from those that look like them in
// a container, and decides the name of its Node.
//
// Invariants: the lock is held by the open file, so it ends with the process
// however that ends; the file's content is only a hint for people and for
// killall, which verifies it. The same machine with the same settings gets the
// same node name at every start; the name is a valid Node name or an error names
// the setting.
//
// main, cmd, agent and embedded/payload may import it.
package instance
