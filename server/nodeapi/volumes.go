package nodeapi

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/sirupsen/logrus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// Volumes are the local volumes of all nodes. A node may not read persistent
// volumes itself: they name the claims of all tenants.
type Volumes interface {
	// Work is what node has to do now; changed is closed when that may have
	// changed. It is false while the volumes are not known.
	Work(node string) (work joinapi.LocalVolumes, changed <-chan struct{}, ok bool)
	// Done takes the answer of node. An answer about a volume that node does
	// not have is NotFound.
	Done(ctx context.Context, node string, done joinapi.LocalVolumeDone) error
}

// volumes sends nodes what to do for their local volumes, and takes what they did.
type volumes struct {
	volumes Volumes
	log     *logrus.Entry
}

// localVolumes tells a node what to do for its volumes, again and again until
// the node goes or the server stops.
func (v *volumes) localVolumes(w http.ResponseWriter, r *http.Request, who identity) error {
	if v.volumes == nil {
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "this cluster has no local volumes")
	}
	alive := time.NewTicker(joinapi.LocalVolumesAlive)
	defer alive.Stop()
	var told []joinapi.LocalVolume
	for begun, late := false, false; ; begun = true {
		work, changed, ok := v.volumes.Work(who.node)
		switch {
		case !ok && begun:
			return nil
		case !ok:
			return retryLater(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, time.Second,
				"the volumes are not known yet", nil)
		case !begun:
			w.Header().Set("Content-Type", "application/x-ndjson")
			if r.Method == http.MethodHead {
				return nil
			}
		}
		same := begun && !late && slices.Equal(told, work.Volumes)
		if told = work.Volumes; !same &&
			(json.NewEncoder(w).Encode(work) != nil || http.NewResponseController(w).Flush() != nil) {
			v.log.WithField("node", who.node).Debug("the stream of local volumes ended")
			return nil // nobody is left to learn of an error
		}
		select {
		case <-changed:
			late = false
		case <-alive.C:
			late = true
		case <-r.Context().Done():
			return nil
		}
	}
}

// localVolumeDone takes what a node says about one of its volumes.
func (v *volumes) localVolumeDone(w http.ResponseWriter, r *http.Request, who identity) error {
	var done joinapi.LocalVolumeDone
	if err := readBody(w, r, &done); err != nil {
		return err
	}
	if v.volumes == nil {
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "this cluster has no local volumes")
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	err := v.volumes.Done(ctx, who.node, done)
	switch {
	case apierrors.IsNotFound(err):
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "node "+who.node+" has no such volume")
	case err != nil:
		return unavailable("record the state of a volume", err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
