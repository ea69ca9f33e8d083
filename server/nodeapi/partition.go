package nodeapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/server/partition/membership"
)

// partition registers a server of another partition.
func (s *Supervisor) partition(w http.ResponseWriter, r *http.Request, who identity) error {
	if s.opts.Partitions == nil {
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound,
			"this server is not of the home partition, where others are registered")
	}
	var req joinapi.PartitionRequest
	if err := readBody(w, r, &req); err != nil {
		return err
	}
	if !who.serverToken && who.partition != req.Name {
		return refusal(http.StatusForbidden, metav1.StatusReasonForbidden,
			who.String()+" may not register a server of partition "+req.Name)
	}
	ctx, cancel := context.WithTimeout(r.Context(), storeTimeout)
	defer cancel()
	if err := s.opts.Partitions(ctx, req); err != nil {
		return ofAPI(err)
	}
	bundle := &joinapi.PartitionBundle{}
	if who.serverToken {
		var err error
		if bundle, err = s.opts.PartitionBundle(); err != nil {
			return err
		}
	}
	s.opts.Log.WithField("partition", req.Name).WithField("remote", r.RemoteAddr).WithField("by", who.name).
		Infof("registered server %s of another partition", req.Server)
	return reply(w, bundle)
}

// ofAPI passes on what the API refused.
func ofAPI(err error) error {
	var status apierrors.APIStatus
	switch {
	case errors.Is(err, membership.ErrRemoved):
		return refusal(http.StatusGone, metav1.StatusReasonGone, err.Error()+
			": destroy its disks, or move its server directory away and begin a new partition")
	case errors.As(err, &status) && status.Status().Code < http.StatusInternalServerError:
		st := status.Status()
		return refusal(st.Code, st.Reason, st.Message)
	}
	return unavailable("register a partition", err)
}

// tellAgain is how soon a node is told again of what was not complete.
const tellAgain = time.Second

// partitions tells a node which partitions the cluster has, again and again until the node
// goes or the server stops.
func (s *Supervisor) partitions(w http.ResponseWriter, r *http.Request, who identity) error {
	if s.opts.KnownPartitions == nil {
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "there is nothing at "+r.URL.Path)
	}
	known, changed, ok := s.opts.KnownPartitions()
	if !ok {
		return retryLater(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, time.Second,
			"the partitions are not known yet", nil)
	}
	f := newFeed(joinapi.PartitionsAlive, changed, nil)
	return s.streams.tell(w, r, who, "partitions", f, func(lines *json.Encoder, first bool) error {
		if !first {
			if known, changed, ok = s.opts.KnownPartitions(); !ok {
				f.done[0] = closed()
				return nil
			}
		}
		f.changed[0], f.alive = changed, joinapi.PartitionsAlive
		if !known.Complete {
			f.alive = tellAgain
		}
		return lines.Encode(known)
	})
}

// partitionStates tells an administrator how the partitions of the cluster are.
func (s *Supervisor) partitionStates(w http.ResponseWriter, r *http.Request, _ identity) error {
	if s.opts.PartitionStates == nil {
		return refusal(http.StatusNotFound, metav1.StatusReasonNotFound, "there is nothing at "+r.URL.Path)
	}
	return reply(w, s.opts.PartitionStates(r.Context()))
}

// closed is a channel that ends a stream.
func closed() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}
