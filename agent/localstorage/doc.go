// Package localstorage makes and removes the directories of this node's local
// volumes, as the server says (server/addons/localstorage).
//
// Invariants: only a directory whose name begins with that of its volume is
// touched; nothing below it that is a link or another file system is followed;
// what is removed is removed before the server is told so, and what was not is
// asked for again.
//
// Only agent's wiring may import it. It imports no Kubernetes server code.
package localstorage
