// Package process starts programs that tests need, each killed with the process of the test.
//
// Invariants: the kernel kills a program with the thread that started it, and threads end when a goroutine
// that locked its own does, as those that enter a namespace do. So that thread is kept until the program has
// been waited for: without this a test loses a program now and then, and sees one that does not answer.
//
// Only tests may import it. It imports no other package of a4s.
package process
