// Package nodename decides the name of this machine's Node object.
//
// Invariants: the same machine with the same settings gets the same name at
// every start; the name is a valid Node name or an error names the setting.
//
// main may import it.
package nodename
