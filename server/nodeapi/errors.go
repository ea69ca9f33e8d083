package nodeapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/problem"
)

// statusError is a refusal that the client gets to see; its cause is only
// logged.
type statusError struct {
	status metav1.Status
	cause  error
}

func (e *statusError) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("%s: %v", e.status.Message, e.cause)
	}
	return e.status.Message
}

func (e *statusError) Unwrap() error { return e.cause }

func refusal(code int32, reason metav1.StatusReason, message string) *statusError {
	return &statusError{status: metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Code:     code,
		Reason:   reason,
		Message:  message,
	}}
}

func retryLater(
	code int32, reason metav1.StatusReason, after time.Duration, message string, cause error,
) *statusError {
	e := refusal(code, reason, message)
	e.status.Details = &metav1.StatusDetails{RetryAfterSeconds: int32(after.Seconds())}
	e.cause = cause
	return e
}

// unavailable is the answer while the API cannot be used.
func unavailable(what string, cause error) *statusError {
	return retryLater(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, 2*time.Second,
		"the API of this server is not ready to "+what, cause)
}

// invalid is the answer to a bad value in the named field.
func invalid(field, message string) *statusError {
	e := refusal(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, message)
	e.status.Details = &metav1.StatusDetails{Causes: []metav1.StatusCause{{
		Type: metav1.CauseTypeFieldValueInvalid, Field: field, Message: message,
	}}}
	return e
}

// inputOrInternal turns bad input into 400 and any other error into 500.
func inputOrInternal(err error) error {
	var in *problem.Input
	if errors.As(err, &in) {
		return refusal(http.StatusBadRequest, metav1.StatusReasonBadRequest, in.Error())
	}
	return err
}

// refuse answers with err as a metav1.Status and logs it.
func (s *Supervisor) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var e *statusError
	if !errors.As(err, &e) {
		e = refusal(http.StatusInternalServerError, metav1.StatusReasonInternalError,
			"internal error; the log of the server has the cause")
		e.cause = err
	}
	log := s.opts.Log.WithField("path", r.URL.Path).WithField("remote", r.RemoteAddr).WithField("code", e.status.Code)
	if e.status.Code == http.StatusInternalServerError {
		log.Error(e)
	} else {
		log.Info(e)
	}
	h := w.Header()
	if e.status.Code == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Basic realm="a4s"`)
	}
	if d := e.status.Details; d != nil && d.RetryAfterSeconds > 0 {
		h.Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	data, err := json.Marshal(e.status)
	if err != nil {
		log.WithError(err).Error("encoding a status")
		http.Error(w, e.status.Message, int(e.status.Code))
		return
	}
	h.Set("Content-Type", "application/json")
	w.WriteHeader(int(e.status.Code))
	_, _ = w.Write(data) // a client that went away does not need it
}
