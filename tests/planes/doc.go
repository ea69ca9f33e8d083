// Package planes starts control planes inside the process of a test, as a
// server without a node does, and gives access to them: to the API as any user
// of the system or of a tenant, and to the datastore behind it.
//
// A control plane takes the ports of a real one and the address Address, so
// the process has to be in a network namespace of its own: a test gets one
// from package nstest, a process that is started for it from whoever starts it.
//
// Invariants: what Start starts ends with the test; every wait ends, after
// Deadline at the latest, and says what it waited for.
//
// Only tests may import it, and processes that they start.
package planes
