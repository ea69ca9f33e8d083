// Package confined runs work that a tenant's data could lead astray in a process of its own, which can do nothing but
// compute and ask its parent for connections. It is the program itself under another name, and both sides are here.
//
// Invariants:
//   - Before it reads anything, it has no file, no network, no user but nobody, no capability, and bounds of memory
//     and of time on the processor. If one of these cannot be had, it reads nothing.
//   - It runs when nothing else needs the processor, and is the first that the kernel ends when memory ends.
//   - What it asks for and what it answers is bounded, and the parent waits for nothing longer than it says.
//   - It ends with the call that began it, and with its parent however that ends. Nothing of it stays.
//
// It knows nothing of what the work is. server/addons, its charts, server and main.go may import it.
package confined
