package nodeapi

import (
	"context"
	"errors"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/joinapi"
	"github.com/a4s-io/a4s/internal/problem"
	"github.com/a4s-io/a4s/server/cluster/encryption"
)

// Encryption changes how Secrets are stored.
type Encryption interface {
	Status(ctx context.Context) (joinapi.EncryptionStatus, error)
	Start(ctx context.Context, action joinapi.EncryptionAction) error
}

func (s *Supervisor) encryption(w http.ResponseWriter, r *http.Request, _ identity) error {
	status, err := s.opts.Encryption.Status(r.Context())
	if err != nil {
		return explained(err)
	}
	return reply(w, status)
}

func (s *Supervisor) startEncryption(w http.ResponseWriter, r *http.Request, who identity) error {
	var req joinapi.EncryptionRequest
	if err := readBody(w, r, &req); err != nil {
		return err
	}
	if err := s.opts.Encryption.Start(r.Context(), req.Action); err != nil {
		if errors.Is(err, encryption.ErrBusy) {
			return refusal(http.StatusConflict, metav1.StatusReasonConflict, err.Error())
		}
		return explained(err)
	}
	s.opts.Log.WithField("by", who.name).Infof("secrets-encrypt %s was begun", req.Action)
	return reply(w, struct{}{})
}

// explained turns what an administrator can do something about into a refusal.
func explained(err error) error {
	var pre *problem.Precondition
	if errors.As(err, &pre) {
		return refusal(http.StatusConflict, metav1.StatusReasonConflict, pre.Error())
	}
	return inputOrInternal(err)
}
