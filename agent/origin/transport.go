package origin

import (
	"fmt"
	"net/http"
)

// Options say what happens to requests and answers. The zero Options leave out
// the parts that need a setting.
type Options struct {
	// ClusterDNS are the addresses of the cluster's name server.
	ClusterDNS []string
	// ClusterDomain is the DNS domain of the cluster.
	ClusterDomain string
	// ResolvConf is the resolver file that pods inherit search domains from;
	// empty means none.
	ResolvConf string
	// Workloads decide on the types of pods; nil leaves them as they are.
	Workloads *Workloads
	// NodeName is the name of the Node object.
	NodeName string
	// ExternalIPs are addresses of type ExternalIP in the status of the Node.
	ExternalIPs []string
	// Partition returns the tenant partition of a namespace, as the node calls it;
	// nil if there are no other partitions than home.
	Partition func(namespace string) (p Partition, ok bool)
}

// Transport is the transport of a client of the kubelet.
type Transport struct {
	uplink  Uplink
	options Options
}

// New returns a transport that sends requests on by uplink.
func New(uplink Uplink, o Options) *Transport { return &Transport{uplink: uplink, options: o} }

// Plain returns a transport that sends requests on by uplink and leaves answers as they are:
// for clients that are not of the kubelet, and see what the API has.
func Plain(uplink Uplink) http.RoundTripper { return plain{uplink} }

type plain struct{ Uplink }

// RoundTrip implements http.RoundTripper.
func (p plain) RoundTrip(r *http.Request) (*http.Response, error) { return p.Send(parse(r)) }

// CloseIdleConnections lets a client drop connections that hang.
func (t *Transport) CloseIdleConnections() { t.uplink.CloseIdleConnections() }

// RoundTrip implements http.RoundTripper.
func (t *Transport) RoundTrip(request *http.Request) (*http.Response, error) {
	r := parse(request)
	if err := t.addExternalIPs(r); err != nil {
		return nil, fmt.Errorf("adding the external addresses of the node: %w", err)
	}
	resp, err := t.uplink.Send(r)
	if err != nil || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	c := t.change(r)
	if c == nil {
		return resp, nil
	}
	if err := changeAnswer(r, resp, c, nil); err != nil {
		_ = resp.Body.Close() // the error that counts is the other one
		return nil, fmt.Errorf("reading %s for the kubelet: %w", r.Resource.Resource, err)
	}
	return resp, nil
}

// change is that of the answer to r, nil for none.
func (t *Transport) change(r *Request) change {
	switch rewritten(r) {
	case "services":
		return filterServices{}
	case "pod":
		return pods{native: t.options.projector()}
	case "pods":
		w, o := t.options.Workloads, r.Options
		// The kubelet's own view has every namespace; a watch has everything in
		// the beginning if it is asked to.
		initial := o.SendInitialEvents != nil && *o.SendInitialEvents
		all := r.Namespace == "" && (r.Verb == VerbList || initial) && o.Continue == "" && o.Limit == 0
		if w != nil && all && r.Verb == VerbWatch {
			w.begin()
		}
		return pods{native: t.options.projector(), workloads: w, all: all}
	}
	return nil
}

// rewritten returns "pods", "pod" or "services" if r reads such objects that may
// have to be changed.
func rewritten(r *Request) string {
	if r.Namespace != "" && !shownNative(r.Namespace) {
		return ""
	}
	switch {
	case r.Resource == podsResource && r.Collects():
		return "pods"
	case r.Resource == podsResource && r.Verb == VerbGet && r.Subresource == "":
		return "pod"
	case r.Resource == svcResource && r.Collects():
		return "services"
	}
	return ""
}
