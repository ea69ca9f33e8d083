package edge

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// longestYAML is how long the JSON is of which YAML is made, in bytes. YAML is for people:
// to make it takes a hundred times as long as to write JSON, all of it in memory.
const longestYAML = 3 << 20

// inJSONInstead has the API server answer in JSON where a client asks for YAML, which the
// edge makes of it then, once it is what the tenant sees. The returned function reports
// whether an answer with a code is to be YAML, which the client likes better then.
func inJSONInstead(req *http.Request) (_ *http.Request, yaml func(code int) bool) {
	never := func(int) bool { return false }
	if !strings.Contains(req.Header.Get("Accept"), "yaml") {
		return req, never
	}
	clauses := goautoneg.ParseAccept(req.Header.Get("Accept"))
	of := func(types ...string) func(goautoneg.Accept) bool {
		return func(c goautoneg.Accept) bool { return slices.Contains(types, c.Type+"/"+c.SubType) }
	}
	asYAML := slices.IndexFunc(clauses, of(inYAML))
	if asYAML < 0 {
		return req, never
	}
	asJSON := slices.IndexFunc(clauses, of(inJSON, "application/*", "*/*"))
	accept := make([]string, len(clauses))
	for i, c := range clauses {
		accept[i] = c.Type + "/" + c.SubType
		if of(inYAML)(c) {
			accept[i] = inJSON
		}
		for _, name := range slices.Sorted(maps.Keys(c.Params)) {
			accept[i] += ";" + name + "=" + c.Params[name]
		}
		accept[i] += ";q=" + strconv.FormatFloat(c.Q, 'f', 3, 64)
	}
	req = req.Clone(req.Context())
	req.Header.Set("Accept", strings.Join(accept, ","))
	// Nobody reads what curl is shown with spaces.
	query := req.URL.Query()
	query.Set("pretty", "0")
	req.URL.RawQuery = query.Encode()
	if asJSON >= 0 && asJSON < asYAML {
		return req, never
	}
	// Upstream gives no error as a table, nor as anything else, and falls back on JSON.
	_, as := clauses[asYAML].Params["as"]
	return req, func(code int) bool { return code < http.StatusBadRequest || !as }
}

// tooLongForYAML is the answer to whoever asks for more than there is YAML of.
func tooLongForYAML() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure,
		Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: fmt.Sprintf("the answer has more than %d bytes, of which no YAML is made: ask for application/json, "+
			"or with a limit for a part of it", longestYAML)}}
}
