package failure

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Write answers with a Status; errors that have none become a 500.
func Write(w http.ResponseWriter, err error) {
	st := apierrors.NewInternalError(err).ErrStatus
	var withStatus apierrors.APIStatus
	if errors.As(err, &withStatus) {
		st = withStatus.Status()
	}
	st.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	h := w.Header()
	h.Set("Cache-Control", "no-cache, private")
	body, err := json.Marshal(st)
	if err != nil {
		http.Error(w, "encoding the status", http.StatusInternalServerError)
		return
	}
	h.Set("Content-Type", "application/json")
	if st.Details != nil && st.Details.RetryAfterSeconds > 0 {
		h.Set("Retry-After", strconv.Itoa(int(st.Details.RetryAfterSeconds)))
	}
	w.WriteHeader(int(st.Code))
	_, _ = w.Write(body) // a client that went away does not need it
}

// Again is an error that says when to ask again, in seconds.
func Again(code int32, reason metav1.StatusReason, after int32, message string) *apierrors.StatusError {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Reason: reason,
		Message: message, Details: &metav1.StatusDetails{RetryAfterSeconds: after}}}
}
