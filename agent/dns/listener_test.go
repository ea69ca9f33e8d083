package dns

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/miekg/dns"
)

// ends waits until the server has closed c.
func (h *harness) ends(c *dns.Conn) {
	h.t.Helper()
	if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		h.t.Errorf("the connection is open: %v", err)
	}
}

func TestConnectionsOfATenantAreBounded(t *testing.T) {
	h, limits := bounded(t, nil, nil)
	each := limits.connections.shares[ofTenants].each
	var held []*dns.Conn
	for i := range each {
		held = append(held, h.dial("tcp", []string{hostile, hostileToo}[i%2]))
	}
	h.await(func() bool { return limits.connections.count(bad()) == each }, "the tenant has its share")
	for _, source := range []string{hostile, hostileToo} {
		if c, err := h.connect("tcp", source); err == nil { // or it has ended already
			h.ends(c)
		}
	}
	if n := limits.connections.count(bad()); n != each {
		t.Errorf("%d connections are open, want %d", n, each)
	}
	h.othersAreAnswered(apiName)
	if m := h.asked("udp", hostile, apiName); m.Rcode != dns.RcodeSuccess {
		t.Errorf("over UDP the tenant gets %s", dns.RcodeToString[m.Rcode])
	}
	if err := held[0].Close(); err != nil {
		t.Fatal(err)
	}
	h.await(func() bool { return limits.connections.count(bad()) == each-1 }, "a slot is free again")
	c := h.dial("tcp", hostile)
	h.send(c, apiName)
	if m := h.next(c); m.Rcode != dns.RcodeSuccess {
		t.Errorf("in the free slot: %s", dns.RcodeToString[m.Rcode])
	}
}

func TestConnectionsThatDoNothingEnd(t *testing.T) {
	for name, act := range map[string]struct {
		limit func(*bounds)
		do    func(*harness, *dns.Conn) error
	}{
		"silent": {limit: func(b *bounds) { b.read = 10 * time.Millisecond }},
		"one byte": {limit: func(b *bounds) { b.read = 10 * time.Millisecond },
			do: func(_ *harness, c *dns.Conn) error { _, err := c.Conn.Write([]byte{0}); return err }},
		"idle": {limit: func(b *bounds) { b.idle = 10 * time.Millisecond },
			do: func(h *harness, c *dns.Conn) error { h.send(c, apiName); h.next(c); return nil }},
		"a long query": {limit: func(*bounds) {},
			do: func(_ *harness, c *dns.Conn) error {
				_, err := c.Conn.Write([]byte{(maxQuery + 1) >> 8, (maxQuery + 1) & 0xff})
				return err
			}},
	} {
		t.Run(name, func(t *testing.T) {
			h, limits := bounded(t, nil, func(_ *harness, b *bounds) { act.limit(b) })
			c := h.dial("tcp", hostile)
			if act.do != nil {
				if err := act.do(h, c); err != nil {
					t.Log(err) // it has ended already
				}
			}
			h.ends(c)
			h.await(func() bool { return limits.connections.count(bad()) == 0 }, "its slot is free")
		})
	}
}

// It asks for more than the buffers on both sides hold, and takes nothing.
func TestConnectionsThatDoNotReadEnd(t *testing.T) {
	h, limits := bounded(t, nil, func(_ *harness, b *bounds) { b.write = 10 * time.Millisecond })
	c := h.dial("tcp", hostile)
	var err error
	for err == nil {
		err = c.WriteMsg(new(dns.Msg).SetQuestion(apiName, dns.TypeA))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("the connection stays")
	}
	h.await(func() bool { return limits.connections.count(bad()) == 0 && limits.inside.count(bad()) == 0 },
		"its slots are free")
}
