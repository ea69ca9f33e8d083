package edge

import (
	"net/http"

	"github.com/a4s-io/a4s/server/controlplane/failure"
)

// writeError answers with a Status; errors that have none become a 500.
func writeError(w http.ResponseWriter, err error) { failure.Write(w, err) }
