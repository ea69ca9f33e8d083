// Package link carries many streams over one byte channel whose other end may
// go away and come back at any time without either side's buffers being
// emptied: a virtio-serial port.
//
// A session begins with a handshake that each side can enter out of any state
// (see handshake.go), and ends with the first frame that is not whole. In a
// session every stream has a window, so that one that is not read holds up no
// other. Streams are opened by the host only.
//
// Invariants: no byte of one session is ever taken for one of another; what a
// peer can make the other side keep in memory is bounded by window and
// maxStreams; the goroutine that reads never waits for one that writes.
//
// The init of virtual machines and its client import it. It depends on the
// standard library alone.
package link
