package hosts

import (
	"net"

	"github.com/miekg/dns"
)

// UpstreamName is a name that the lab's own name server knows, and
// UpstreamAddress is its address: a pod that resolves it shows that cluster
// DNS forwards to the server in the host's resolv.conf.
const (
	UpstreamName    = "upstream.a4s-e2e.test"
	UpstreamAddress = "192.0.2.53"
)

// resolver is the name server in the hosts' resolv.conf.
type resolver struct{ server *dns.Server }

func startResolver(ip net.IP) (*resolver, error) {
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: ip, Port: 53})
	if err != nil {
		return nil, err
	}
	r := &resolver{server: &dns.Server{PacketConn: conn, Handler: dns.HandlerFunc(answer)}}
	go func() { _ = r.server.ActivateAndServe() }()
	return r, nil
}

func (r *resolver) close() { _ = r.server.PacketConn.Close() }

func answer(w dns.ResponseWriter, query *dns.Msg) {
	reply := new(dns.Msg)
	reply.SetReply(query)
	for _, q := range query.Question {
		switch {
		case q.Name != dns.Fqdn(UpstreamName):
			reply.Rcode = dns.RcodeNameError
		case q.Qtype == dns.TypeA:
			reply.Answer = append(reply.Answer, &dns.A{
				Hdr: dns.RR_Header{Name: q.Name, Rrtype: q.Qtype, Class: dns.ClassINET, Ttl: 1},
				A:   net.ParseIP(UpstreamAddress),
			})
		}
	}
	_ = w.WriteMsg(reply)
}
