package nodeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sirupsen/logrus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/netpolicy"
	"github.com/a4s-io/a4s/server/addons/ingress"
	"github.com/a4s-io/a4s/server/addons/networkpolicy"
)

// streams sends nodes what they need of pods, and every change.
type streams struct {
	addresses *Addresses
	policies  *networkpolicy.Controller
	ingress   *ingress.Controller
	log       *logrus.Entry
}

// podAddresses tells a node the addresses of the pods that concern it, and then every change,
// until the node goes or the server stops.
func (s *streams) podAddresses(w http.ResponseWriter, r *http.Request, who identity) error {
	a := s.addresses
	if a == nil {
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "there is nothing at "+r.URL.Path)
	}
	stream, ok := a.watch(who.node)
	if !ok {
		return retryLater(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, time.Second,
			"the pods are not known yet", nil)
	}
	defer a.stop(stream)
	f := newFeed(joinapi.PodAddressesAlive, stream.wake, stream.done)
	return s.tell(w, r, who, "pod addresses", f, func(lines *json.Encoder, first bool) error {
		news := a.take(stream)
		for _, p := range news {
			if err := lines.Encode(p); err != nil {
				return err
			}
		}
		if first || len(news) == 0 {
			return lines.Encode(joinapi.PodAddress{Complete: first})
		}
		return nil
	})
}

// networkPolicies tells a node which policies its pods are under, and then
// every change, until the node goes or the server stops.
func (s *streams) networkPolicies(w http.ResponseWriter, r *http.Request, who identity) error {
	if s.policies == nil {
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "network policies are disabled")
	}
	stream, ok := s.policies.Watch(who.node)
	if !ok {
		return retryLater(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, time.Second,
			"the network policies are not known yet", nil)
	}
	defer stream.Stop()
	f := newFeed(netpolicy.Alive, stream.Changed(), stream.Done())
	return s.tell(w, r, who, "network policies", f, func(lines *json.Encoder, _ bool) error {
		for _, line := range stream.Next() {
			if err := lines.Encode(line); err != nil {
				return err
			}
		}
		return lines.Encode(netpolicy.Line{Complete: true})
	})
}

// ingresses tells a node where requests for Ingresses go that it takes, and then every change, until the node
// goes or the server stops.
func (s *streams) ingresses(w http.ResponseWriter, r *http.Request, who identity) error {
	if s.ingress == nil {
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "Ingresses are disabled")
	}
	stream, ok := s.ingress.Watch(who.node)
	if !ok {
		return retryLater(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, time.Second,
			"the Ingresses are not known yet", nil)
	}
	defer stream.Stop()
	f := newFeed(joinapi.IngressAlive, stream.Changed(), stream.Done())
	return s.tell(w, r, who, "Ingresses", f, func(lines *json.Encoder, _ bool) error {
		news, ok := stream.Next()
		if !ok {
			return errStreamEnded
		}
		for _, line := range news {
			if err := lines.Encode(line); err != nil {
				return err
			}
		}
		return lines.Encode(joinapi.IngressLine{Complete: true})
	})
}

// packetFilter tells a node both: the addresses of pods, and which policies
// its pods are under. Addresses do not wait until the policies are known.
func (s *streams) packetFilter(w http.ResponseWriter, r *http.Request, who identity) error {
	if s.addresses == nil {
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "there is nothing at "+r.URL.Path)
	}
	addresses, ok := s.addresses.watch(who.node)
	if !ok {
		return retryLater(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, time.Second,
			"the pods are not known yet", nil)
	}
	defer s.addresses.stop(addresses)
	var policies *networkpolicy.Watch
	defer func() {
		if policies != nil {
			policies.Stop()
		}
	}()
	f := newFeed(netpolicy.Alive, addresses.wake, addresses.done)
	return s.tell(w, r, who, "the packet filter", f, func(lines *json.Encoder, first bool) error {
		for _, p := range s.addresses.take(addresses) {
			if err := lines.Encode(netpolicy.FilterLine{Address: &p}); err != nil {
				return err
			}
		}
		if first {
			if err := lines.Encode(netpolicy.FilterLine{Address: &joinapi.PodAddress{Complete: true}}); err != nil {
				return err
			}
		}
		if s.policies == nil {
			return lines.Encode(netpolicy.FilterLine{NoPolicies: first})
		}
		if policies == nil {
			f.alive = time.Second // until the policies are known
			watch, ok := s.policies.Watch(who.node)
			if !ok {
				return lines.Encode(netpolicy.FilterLine{})
			}
			policies, f.alive = watch, netpolicy.Alive
			f.changed[1], f.done[1] = watch.Changed(), watch.Done()
		}
		for _, line := range policies.Next() {
			if err := lines.Encode(netpolicy.FilterLine{Policy: &line}); err != nil {
				return err
			}
		}
		return lines.Encode(netpolicy.FilterLine{Policy: &netpolicy.Line{Complete: true}})
	})
}

// feed is what a stream waits for; a channel that is nil never comes.
type feed struct {
	changed, done [2]<-chan struct{}
	alive         time.Duration
}

func newFeed(alive time.Duration, changed, done <-chan struct{}) *feed {
	return &feed{changed: [2]<-chan struct{}{changed}, done: [2]<-chan struct{}{done}, alive: alive}
}

// errStreamEnded ends a stream: what it would tell is not known any more.
var errStreamEnded = errors.New("the stream has ended")

// tell streams what next writes, at first, after every change, and when there
// was nothing for as long as f says. next may change f.
func (s *streams) tell(
	w http.ResponseWriter, r *http.Request, who identity, what string, f *feed,
	next func(lines *json.Encoder, first bool) error,
) error {
	w.Header().Set("Content-Type", "application/x-ndjson")
	if r.Method == http.MethodHead {
		return nil
	}
	for first := true; ; first = false {
		var out bytes.Buffer
		if err := next(json.NewEncoder(&out), first); errors.Is(err, errStreamEnded) {
			return nil
		} else if err != nil {
			return fmt.Errorf("encoding %s: %w", what, err)
		}
		if _, err := w.Write(out.Bytes()); err != nil || http.NewResponseController(w).Flush() != nil {
			s.log.WithField("node", who.node).Debugf("the stream of %s ended", what)
			return nil // nobody is left to learn of an error
		}
		select {
		case <-f.changed[0]:
		case <-f.changed[1]:
		case <-time.After(f.alive):
		case <-f.done[0]:
			return nil
		case <-f.done[1]:
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}
