package edge

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"github.com/munnerz/goautoneg"
)

// longestIndented is how long JSON is that gets line breaks and spaces, in bytes. They are for
// people. To write a list with them the API server has to have all of it in memory, three times;
// without them it writes one object after the other.
const longestIndented = 1 << 20

// indent is what a line gets for each level.
const indent = "  "

// asksForIndent reports whether a client asks for JSON that people read, as upstream decides it:
// by the query, else by the media type or by what the client is.
func asksForIndent(req *http.Request) bool {
	accept := req.Header.Get("Accept")
	if strings.Contains(accept, "pretty") {
		for _, c := range goautoneg.ParseAccept(accept) {
			if asks, err := strconv.ParseBool(c.Params["pretty"]); asks && err == nil {
				return true
			}
		}
	}
	if strings.Contains(req.URL.RawQuery, "pretty") {
		if asks := req.URL.Query().Get("pretty"); asks != "" {
			yes, err := strconv.ParseBool(asks)
			return yes && err == nil
		}
	}
	agent := req.UserAgent()
	return strings.HasPrefix(agent, "curl") || strings.HasPrefix(agent, "Wget") ||
		strings.HasPrefix(agent, "Mozilla/5.0")
}

// compactInstead has the API server answer without line breaks where a client asks for them. The
// edge adds them to an answer that is not too long for it.
func compactInstead(req *http.Request) (_ *http.Request, indent bool) {
	if !asksForIndent(req) {
		return req, false
	}
	req = req.Clone(req.Context())
	withoutIndent(req)
	if accept := req.Header.Get("Accept"); strings.Contains(accept, "pretty") {
		clauses := goautoneg.ParseAccept(accept)
		for i := range clauses {
			delete(clauses[i].Params, "pretty")
		}
		req.Header.Set("Accept", formatAccept(clauses))
	}
	return req, true
}

// withoutIndent changes the query to ask for no line breaks, which counts more than what the client is.
func withoutIndent(req *http.Request) {
	query := req.URL.Query()
	query.Set("pretty", "0")
	req.URL.RawQuery = query.Encode()
}

// indented is JSON with line breaks, as upstream writes it. JSON that would get too long by them,
// deep lists of small values, stays as it is.
func indented(body []byte) ([]byte, error) {
	length := indentedLength(body)
	if length > 2*longestIndented {
		return body, nil
	}
	var out bytes.Buffer
	out.Grow(length)
	if err := json.Indent(&out, bytes.TrimRight(body, "\n"), "", indent); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// indentedLength is how long JSON without spaces is with line breaks, or somewhat more: empty lists
// and objects get none.
func indentedLength(body []byte) int {
	length, depth, inString := len(body), 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			depth++
			length += 1 + len(indent)*depth
		case c == '}' || c == ']':
			depth--
			length += 1 + len(indent)*depth
		case c == ',':
			length += 1 + len(indent)*depth
		case c == ':':
			length++
		}
	}
	return length
}
