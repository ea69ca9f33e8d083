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

	"github.com/a4s-io/a4s/server/tenancy/wire"
)

// longestYAML is how long the JSON is of which YAML is made, in bytes; wire.MaxYAMLValues is
// its other bound. YAML is for people: to make it takes a hundred times as long as to write
// JSON, and sixty times its length in memory.
const longestYAML = 1 << 20

// ofJSON is the media type of an answer that comes in JSON and is to be YAML.
const ofJSON = inYAML + " of JSON"

// inJSONInstead has the API server answer in JSON where a client asks for YAML, which the
// edge makes of it then, once it is what the tenant sees.
func inJSONInstead(req *http.Request) (*http.Request, wish) {
	if !strings.Contains(req.Header.Get("Accept"), "yaml") {
		return req, wish{}
	}
	clauses := goautoneg.ParseAccept(req.Header.Get("Accept"))
	of := func(types ...string) func(goautoneg.Accept) bool {
		return func(c goautoneg.Accept) bool { return slices.Contains(types, c.Type+"/"+c.SubType) }
	}
	asYAML := slices.IndexFunc(clauses, of(inYAML))
	if asYAML < 0 {
		return req, wish{}
	}
	asJSON := slices.IndexFunc(clauses, of(inJSON, "application/*", "*/*"))
	asked := slices.Clone(clauses)
	for i, c := range clauses {
		if of(inYAML)(c) {
			asked[i].SubType = "json"
		}
	}
	req = req.Clone(req.Context())
	req.Header.Set("Accept", formatAccept(asked))
	if asJSON >= 0 && asJSON < asYAML {
		return req, wish{}
	}
	withoutIndent(req) // nobody reads what curl is shown with spaces
	// Upstream gives no error as a table, nor as anything else, and looks for another clause.
	errors := slices.ContainsFunc(clauses, func(c goautoneg.Accept) bool {
		_, as := c.Params["as"]
		return of(inYAML)(c) && !as
	})
	return req, wish{yaml: true, errors: errors, only: asJSON < 0}
}

// formatAccept is the value of an Accept header.
func formatAccept(clauses []goautoneg.Accept) string {
	accept := make([]string, len(clauses))
	for i, c := range clauses {
		accept[i] = c.Type + "/" + c.SubType
		for _, name := range slices.Sorted(maps.Keys(c.Params)) {
			accept[i] += ";" + name + "=" + c.Params[name]
		}
		accept[i] += ";q=" + strconv.FormatFloat(c.Q, 'f', 3, 64)
	}
	return strings.Join(accept, ",")
}

// tooLongForYAML is the answer to whoever asks for more than there is YAML of.
func tooLongForYAML() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure,
		Code: http.StatusNotAcceptable, Reason: metav1.StatusReasonNotAcceptable,
		Message: fmt.Sprintf("the answer has more than %d bytes or %d values, of which no YAML is made: ask for "+
			"application/json, or with a limit for a part of it", longestYAML, wire.MaxYAMLValues)}}
}
