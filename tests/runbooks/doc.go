// Package runbooks reads docs/operate/runbooks.md: which commands each runbook gives, and what
// it says that is printed. For each of them it says what the test of that runbook does with it.
//
// Invariants: a command or an output that is new in the page fails the test of this package until
// it is decided, and so does a decision about what the page does not have any more. What is not
// run or seen as the page has it has a reason.
//
// The tests of tests/e2e import it, which make the faults. It imports the standard library only.
package runbooks
