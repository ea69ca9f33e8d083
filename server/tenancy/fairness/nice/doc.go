// Package nice has work done by threads that wait for a processor behind all
// others of the process.
//
// A turn of the fairqueue bounds how many requests of a flood compute at the same
// time, but not what happens when a third goroutine has something to do on two
// processors: Go's scheduler has no priorities, and the kernel's lets a thread go
// on for a while that has just got a processor. So the requests of a flood beside
// somebody who asks for little are served at a lower priority, by the kernel's
// scheduler (setpriority(2), which is per thread on Linux).
//
// Invariants: a thread has the priority of the process again when a goroutine
// leaves it; a process that could not raise it again never lowers it; so many
// threads at most are lowered at once that slow clients cannot take all that Go
// may have.
//
// Only server may import it. It imports no Kubernetes code.
package nice
