package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/server/nodeapi/nodelife"
)

// further reads the other addresses of a node. They stand in no certificate, so those of the
// API server are among what may be said: machines behind one address share it.
func (n *nodes) further(req *joinapi.NodeRequest) ([]net.IP, error) {
	if len(req.FurtherIPs) > maxNodeIPs {
		return nil, invalid(joinapi.FieldFurtherIPs,
			fmt.Sprintf("the node has %d further addresses, want at most %d", len(req.FurtherIPs), maxNodeIPs))
	}
	var out []net.IP
	for _, text := range req.FurtherIPs {
		ip := net.ParseIP(text)
		if ip == nil || !ip.IsGlobalUnicast() || contains(n.serviceCIDR, ip) {
			return nil, invalid(joinapi.FieldFurtherIPs, fmt.Sprintf(
				"node address %q is not one of a machine: want an address that others can reach, outside of the "+
					"service range %s", text, n.serviceCIDR))
		}
		out = append(out, ip)
	}
	return out, nil
}

// errEnded is a node whose certificate is dead. Its agent ends by it, and joins again.
func errEnded() error {
	return refusal(http.StatusUnauthorized, joinapi.ReasonNodeEnded, nodelife.ErrDead.Error())
}

// errOtherAddresses is a node whose credential is too little for the addresses that it says. It
// is a 401: an agent that has the token tries again with it.
func errOtherAddresses(node string) error {
	return unauthorized(fmt.Sprintf("node %q joined with other addresses, and its certificate is too little to "+
		"change them: that takes the token", node), nil)
}

// live begins the life of a node, or goes on with it, and returns which it is. The addresses
// of a node are those that somebody with a token says; before says that the node joined
// already, perhaps a server that kept no record.
func (n *nodes) live(
	ctx context.Context, req *joinapi.NodeRequest, who identity, ips, further []net.IP, before bool,
) (string, error) {
	if n.lives == nil {
		return who.life, nil
	}
	var has []netip.Addr
	if n.registered != nil {
		texts, _, err := n.registered(ctx, req.NodeName)
		if err != nil {
			return "", unavailable("look for a node", err)
		}
		for _, text := range texts {
			if ip, err := netip.ParseAddr(text); err == nil {
				has = append(has, ip.Unmap())
			}
		}
	}
	said := distinct(ips, further)
	record, err := n.lives.Change(ctx, req.NodeName, func(r *nodelife.Record, there bool) error {
		if who.node != "" {
			if there && !r.Good(who.life) {
				return errEnded()
			}
			if len(r.Addresses) > 0 {
				has = r.Addresses
			}
			if len(has) == 0 {
				has = said // it never said any, and nobody goes by them yet
			}
			for _, ip := range said {
				if !slices.Contains(has, ip) {
					return errOtherAddresses(req.NodeName)
				}
			}
			r.Addresses = has
		} else {
			r.Addresses = said
			if req.FurtherIPs == nil { // an agent that does not tell them
				r.Addresses = append(r.Addresses, has...)
			}
		}
		slices.SortFunc(r.Addresses, netip.Addr.Compare)
		r.Addresses = slices.Compact(r.Addresses)
		if !there { // it joined a server that kept no record, or that lost it
			r.Former, r.Life = before || who.node != "", who.life
		}
		r.Begin()
		return nil
	})
	if err == nil {
		err = n.lives.Mark(ctx, req.NodeName, record)
	}
	var refused *statusError
	switch {
	case errors.As(err, &refused):
		return "", refused
	case err != nil:
		return "", unavailable("keep the record of a node", err)
	}
	return record.Life, nil
}

func distinct(all ...[]net.IP) []netip.Addr {
	var out []netip.Addr
	for _, ip := range slices.Concat(all...) {
		if addr, ok := netip.AddrFromSlice(ip); ok && !slices.Contains(out, addr.Unmap()) {
			out = append(out, addr.Unmap())
		}
	}
	return out
}

// revoke ends the certificates of a node. Its Node stays as it is.
func (n *nodes) revoke(w http.ResponseWriter, r *http.Request, who identity) error {
	var req joinapi.RevokeRequest
	if err := readBody(w, r, &req); err != nil {
		return err
	}
	if n.lives == nil || n.registered == nil {
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "this server keeps no records of nodes")
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	if n.elsewhere != nil {
		if partition := n.elsewhere(ctx, req.NodeName); partition != "" {
			return refusal(http.StatusConflict, metav1.StatusReasonConflict, fmt.Sprintf(
				"node %s is of partition %s: revoke it at a server of that partition", req.NodeName, partition))
		}
	}
	resp := joinapi.RevokeResponse{}
	var err error
	if _, resp.Registered, err = n.registered(ctx, req.NodeName); err != nil {
		return unavailable("look for a node", err)
	}
	if resp.Joined, err = n.lives.Known(req.NodeName); err != nil {
		return unavailable("look for the record of a node", err)
	}
	if !resp.Joined && !resp.Registered {
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "there is no node "+req.NodeName)
	}
	if err = n.lives.Revoke(ctx, req.NodeName); err != nil {
		return unavailable("end the certificates of a node", err)
	}
	n.log.WithField("node", req.NodeName).WithField("by", who.name).
		Warn("all certificates of this node were revoked; a machine with the token can join under its name")
	return reply(w, resp)
}
