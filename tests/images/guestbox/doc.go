// Command guestbox is what tests run in containers of virtual machines: it says
// what a process sees of itself, and does what one is to notice.
package main
