// Package ledger keeps which tenants have used how much of the server in the last minute,
// and what for: the time their requests computed in seats, the time they waited for one,
// and how many were refused. An administrator reads it with a4s top tenants, and it is in
// metrics.
//
// Invariants: it names a bounded number of tenants, those that use most, and one line is for
// the rest; clients that nobody knows are one line together; a deleted tenant is not named.
// Nothing here decides anything: requests are given seats by fairqueue.
//
// server/tenancy may import it.
package ledger
