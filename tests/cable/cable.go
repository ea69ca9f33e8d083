package cable

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Cable forwards connections to a server.
type Cable struct {
	listener net.Listener
	to       string

	mu    sync.Mutex
	whole chan struct{} // closed unless it is cut
	ended chan struct{}
	conns map[net.Conn]struct{}
	made  int
	run   sync.WaitGroup
}

// New makes a cable to an address, for the time of the test.
func New(t testing.TB, to string) *Cable {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cable{
		listener: listener, to: to, whole: make(chan struct{}), ended: make(chan struct{}),
		conns: map[net.Conn]struct{}{},
	}
	close(c.whole)
	c.run.Go(c.accept)
	t.Cleanup(c.close)
	return c
}

// Address is where clients connect.
func (c *Cable) Address() string { return c.listener.Addr().String() }

// Cut stops everything, until Mend.
func (c *Cable) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.whole = make(chan struct{})
}

// Mend undoes Cut.
func (c *Cable) Mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.whole)
}

// Connections is how many clients have made until now.
func (c *Cable) Connections() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.made
}

func (c *Cable) close() {
	c.mu.Lock()
	close(c.ended)
	_ = c.listener.Close()
	for conn := range c.conns {
		_ = conn.Close()
	}
	c.mu.Unlock()
	c.run.Wait()
}

// passes waits while the cable is cut. It returns false at the end of the test.
func (c *Cable) passes() bool {
	for {
		c.mu.Lock()
		whole := c.whole
		c.mu.Unlock()
		select {
		case <-c.ended:
			return false
		case <-whole:
		}
		c.mu.Lock()
		same := whole == c.whole
		c.mu.Unlock()
		if same {
			return true
		}
	}
}

// keep makes a connection known, so that it ends with the cable.
func (c *Cable) keep(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.ended:
		_ = conn.Close()
		return false
	default:
	}
	c.conns[conn] = struct{}{}
	return true
}

func (c *Cable) drop(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
	_ = conn.Close()
}

func (c *Cable) accept() {
	for {
		near, err := c.listener.Accept()
		if err != nil {
			return
		}
		c.mu.Lock()
		c.made++
		c.mu.Unlock()
		c.run.Go(func() { c.forward(near) })
	}
}

func (c *Cable) forward(near net.Conn) {
	if !c.keep(near) {
		return
	}
	defer c.drop(near)
	if !c.passes() {
		return
	}
	far, err := net.Dial("tcp", c.to)
	if err != nil || !c.keep(far) {
		return
	}
	defer c.drop(far)
	var both sync.WaitGroup
	for from, to := range map[net.Conn]net.Conn{near: far, far: near} {
		both.Go(func() {
			c.copy(to, from)
			// The other end learns of it as soon as the cable is whole.
			if c.passes() {
				_ = to.Close()
			}
		})
	}
	both.Wait()
}

func (c *Cable) copy(to io.Writer, from io.Reader) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if !c.passes() {
				return
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
