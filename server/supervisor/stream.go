package supervisor

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/join"
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
	w.Header().Set("Content-Type", "application/x-ndjson")
	if r.Method == http.MethodHead {
		return nil
	}
	alive := time.NewTicker(join.PodAddressesAlive)
	defer alive.Stop()
	for complete := false; ; complete = true {
		var out bytes.Buffer
		encoder := json.NewEncoder(&out)
		for _, p := range a.take(stream) {
			if err := encoder.Encode(p); err != nil {
				return fmt.Errorf("encoding an address: %w", err)
			}
		}
		if !complete || out.Len() == 0 {
			if err := encoder.Encode(join.PodAddress{Complete: !complete}); err != nil {
				return fmt.Errorf("encoding an address: %w", err)
			}
		}
		if _, err := w.Write(out.Bytes()); err != nil || http.NewResponseController(w).Flush() != nil {
			s.opts.Log.WithField("node", who.node).Debug("the stream of pod addresses ended")
			return nil // nobody is left to be told of an error
		}
		select {
		case <-stream.wake:
		case <-alive.C:
		case <-stream.done:
			return nil
		case <-r.Context().Done():
			return nil
		}
	}
}
