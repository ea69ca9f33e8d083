// Package netdump reads complete lists from the kernel's netlink.
//
// Invariants: a list that changed while the kernel dumped it is read again,
// never used as it is; a list that never stands still is an error.
//
// agent and internal packages may import it. It imports netlink only.
package netdump
