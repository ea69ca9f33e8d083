package dns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"github.com/a4s-io/a4s/internal/problem"
)

// sockets are the two halves of a DNS server. They are opened without
// SO_REUSEPORT, so that a second server on the address is an error and does
// not take half of the queries.
type sockets struct {
	addr netip.AddrPort
	udp  net.PacketConn
	tcp  net.Listener
}

// open listens on addr. Port 0 means any port that is free for both.
func open(ctx context.Context, addr netip.AddrPort) (*sockets, error) {
	const attempts = 16
	var err error
	for range attempts {
		var s *sockets
		if s, err = openOnce(ctx, addr); err == nil {
			return s, nil
		}
		if addr.Port() != 0 {
			break
		}
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, &problem.Precondition{
			What: fmt.Sprintf("port %d of the cluster DNS address %s", addr.Port(), addr.Addr()),
			Fix:  "stop the DNS server that listens on it, or choose another --cluster-dns", Err: err,
		}
	}
	return nil, fmt.Errorf("listening: %w", err)
}

func openOnce(ctx context.Context, addr netip.AddrPort) (*sockets, error) {
	var lc net.ListenConfig
	tcp, err := lc.Listen(ctx, "tcp", addr.String())
	if err != nil {
		return nil, err
	}
	got := tcp.Addr().(*net.TCPAddr).AddrPort()
	addr = netip.AddrPortFrom(got.Addr().Unmap(), got.Port())
	udp, err := lc.ListenPacket(ctx, "udp", addr.String())
	if err != nil {
		_ = tcp.Close()
		return nil, err
	}
	return &sockets{addr: addr, udp: udp, tcp: tcp}, nil
}

// close may follow a server's own close of the sockets.
func (s *sockets) close() {
	_ = s.udp.Close()
	_ = s.tcp.Close()
}
