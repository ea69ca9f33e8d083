package nodeapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/netpolicy"
)

// podAddresses tells a node the addresses of all pods, and then every change,
// until the node goes or the server stops.
func (s *Supervisor) podAddresses(w http.ResponseWriter, r *http.Request, who identity) error {
	a := s.opts.Addresses
	if a == nil {
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "there is nothing at "+r.URL.Path)
	}
	stream, ok := a.watch()
	if !ok {
		return retryLater(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, time.Second, "the pods are not known yet", nil)
	}
	defer a.stop(stream)
	return s.tell(w, r, who, "pod addresses", joinapi.PodAddressesAlive, stream.wake, stream.done, func(lines *json.Encoder, first bool) error {
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
func (s *Supervisor) networkPolicies(w http.ResponseWriter, r *http.Request, who identity) error {
	if s.opts.Policies == nil {
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "network policies are disabled")
	}
	stream, ok := s.opts.Policies.Watch(who.node)
	if !ok {
		return retryLater(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, time.Second, "the network policies are not known yet", nil)
	}
	defer stream.Stop()
	return s.tell(w, r, who, "network policies", netpolicy.Alive, stream.Changed(), stream.Done(), func(lines *json.Encoder, _ bool) error {
		for _, line := range stream.Next() {
			if err := lines.Encode(line); err != nil {
				return err
			}
		}
		return lines.Encode(netpolicy.Line{Complete: true})
	})
}

// tell streams what next writes, at first, after every change, and when there
// was nothing for as long as alive.
func (s *Supervisor) tell(w http.ResponseWriter, r *http.Request, who identity, what string, alive time.Duration, changed, done <-chan struct{}, next func(lines *json.Encoder, first bool) error) error {
	w.Header().Set("Content-Type", "application/x-ndjson")
	if r.Method == http.MethodHead {
		return nil
	}
	tick := time.NewTicker(alive)
	defer tick.Stop()
	for first := true; ; first = false {
		var out bytes.Buffer
		if err := next(json.NewEncoder(&out), first); err != nil {
			return fmt.Errorf("encoding %s: %w", what, err)
		}
		if _, err := w.Write(out.Bytes()); err != nil || http.NewResponseController(w).Flush() != nil {
			s.opts.Log.WithField("node", who.node).Debugf("the stream of %s ended", what)
			return nil // nobody is left to be told of an error
		}
		select {
		case <-changed:
		case <-tick.C:
		case <-done:
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}
