package edge

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// writeError answers with a Status; errors that have none become a 500.
func writeError(w http.ResponseWriter, err error) {
	st := apierrors.NewInternalError(err).ErrStatus
	var withStatus apierrors.APIStatus
	if errors.As(err, &withStatus) {
		st = withStatus.Status()
	}
	st.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	body, err := json.Marshal(st)
	if err != nil {
		http.Error(w, "encoding the status", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if st.Details != nil && st.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(st.Details.RetryAfterSeconds)))
	}
	w.Header().Set("Cache-Control", "no-cache, private")
	w.WriteHeader(int(st.Code))
	w.Write(body) //nolint:errcheck // the client is gone
}
