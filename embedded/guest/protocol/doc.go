// Package protocol holds what the init of a pod's virtual machine and its host
// say to each other: the names of calls and their messages.
//
// A call is a stream of package link. The caller sends one message (Call), the
// other side answers with one (Reply); what follows depends on the call. Fields
// are only ever added, because the init of a running machine is as old as the
// machine while its host may have been upgraded.
//
// The init and its client import it. It depends on the standard library alone.
package protocol
