package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	goyaml "sigs.k8s.io/yaml/goyaml.v2"

	"sigs.k8s.io/yaml"
)

// YAML translates one YAML document outwards, see JSON. Inwards see FromYAML.
func (p *Projector) YAML(r Resource, body []byte) ([]byte, error) {
	asJSON, err := yaml.YAMLToJSON(body)
	if err != nil {
		return nil, fmt.Errorf("%w: YAML: %w", ErrMalformed, err)
	}
	return p.JSONAsYAML(r, asJSON)
}

// MaxYAMLValues is of how many values YAML is made: it takes a kilobyte and microseconds
// for each, however short it is.
const MaxYAMLValues = 50_000

// JSONAsYAML translates a document of JSON outwards and makes YAML of it, or returns
// ErrTooLarge for one of more than MaxYAMLValues.
func (p *Projector) JSONAsYAML(r Resource, body []byte) ([]byte, error) {
	asJSON, err := p.JSON(Out, r, body)
	if err != nil {
		return nil, err
	}
	if marksOf(asJSON, true) > MaxYAMLValues {
		return nil, fmt.Errorf("%w: it has more than %d values", ErrTooLarge, MaxYAMLValues)
	}
	out, err := yaml.JSONToYAML(asJSON)
	if err != nil {
		return nil, fmt.Errorf("%w: YAML: %w", ErrMalformed, err)
	}
	return out, nil
}

const (
	// maxMarks bounds what makes values of YAML: readers take microseconds for
	// each, however short it is. Definitions of custom resources of 1.5 MB have
	// less than half of it.
	maxMarks = 150_000
	// maxDirectives is more than the directives that a document has: readers
	// compare each with all others.
	maxDirectives = 16
	// maxExpanded is how long what YAML stands for may be, with its aliases.
	maxExpanded = 3 << 20
)

// FromYAML makes JSON of the YAML that a tenant sends, which is YAML still, or
// returns ErrTooLarge if that is too much work. Keys that come twice do so in what
// it makes, in the same lines.
func FromYAML(body []byte) ([]byte, error) {
	if isJSON(body) {
		if marksOf(body, true) > maxMarks {
			return nil, fmt.Errorf("%w: it has more than %d values", ErrTooLarge, maxMarks)
		}
		return body, nil
	}
	if bytes.HasPrefix(body, []byte("\xff\xfe")) || bytes.HasPrefix(body, []byte("\xfe\xff")) {
		return nil, fmt.Errorf("%w: YAML: it must be in UTF-8", ErrMalformed)
	}
	if marksOf(body, false) > maxMarks {
		return nil, fmt.Errorf("%w: YAML of more than %d lines and commas", ErrTooLarge, maxMarks)
	}
	if bytes.Count(body, []byte("%TAG")) > maxDirectives && directives(body) > maxDirectives {
		return nil, fmt.Errorf("%w: YAML of more than %d directives", ErrTooLarge, maxDirectives)
	}
	if named(body, '&') && named(body, '*') {
		var v any
		if err := goyaml.Unmarshal(body, &v); err != nil {
			return nil, fmt.Errorf("%w: YAML: %w", ErrMalformed, err)
		}
		if left := maxExpanded; !takes(v, &left) {
			return nil, fmt.Errorf("%w: the aliases in the YAML stand for more than %d bytes",
				ErrTooLarge, maxExpanded)
		}
	}
	asJSON, err := yaml.YAMLToJSONStrict(body)
	var twice *goyaml.TypeError
	if errors.As(err, &twice) {
		if asJSON, err = withTwice(body, twice.Errors); err != nil {
			asJSON, err = yaml.YAMLToJSON(body)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: YAML: %w", ErrMalformed, err)
	}
	if marksOf(asJSON, true) > maxMarks {
		return nil, fmt.Errorf("%w: the YAML stands for more than %d values", ErrTooLarge, maxMarks)
	}
	return printable(asJSON), nil
}

// isJSON tells JSON that is the same in YAML, which has more line breaks.
func isJSON(body []byte) bool {
	if begin := blanks(body); begin == len(body) || body[begin] != '{' || !json.Valid(body) || !utf8.Valid(body) {
		return false
	}
	for _, s := range []string{"\u0085", "\u2028", "\u2029", "\ufeff"} {
		if bytes.Contains(body, []byte(s)) {
			return false
		}
	}
	return true
}

// marksOf counts what begins values, in JSON outside of strings. In YAML that
// is too much: many are in texts.
func marksOf(body []byte, isJSON bool) int {
	n := 0
	for i := 0; i < len(body); i++ {
		switch c := body[i]; c {
		case '"':
			if isJSON {
				i, _ = stringEnd(body, i+1)
			}
		case ',', '[', '{':
			n++
		case '\n', '\r', 0x85, 0xa8, 0xa9: // the last ones end line breaks beyond ASCII
			if !isJSON {
				n++
			}
		case '-', '?':
			if i+1 < len(body) && (body[i+1] == ' ' || body[i+1] == '\t') {
				n++
			}
		}
	}
	return n
}

// directives counts the lines that begin as directives do.
func directives(body []byte) int {
	n := 0
	for i, c := range body {
		// All line breaks end with one of these, so that none is missed.
		if c == '%' && (i == 0 || body[i-1] == '\n' || body[i-1] == '\r' || body[i-1] >= utf8.RuneSelf) {
			n++
		}
	}
	return n
}

// named reports whether a byte stands before a letter or digit anywhere, as that
// of an anchor or an alias does.
func named(body []byte, mark byte) bool {
	for i := bytes.IndexByte(body, mark); i >= 0 && i+1 < len(body); {
		c := body[i+1]
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '-' {
			return true
		}
		next := bytes.IndexByte(body[i+1:], mark)
		if next < 0 {
			return false
		}
		i += 1 + next
	}
	return false
}

// takes subtracts the length of a value from what is left, and reports whether it was
// enough.
func takes(v any, left *int) bool {
	*left--
	switch v := v.(type) {
	case string:
		*left -= len(v)
	case []any:
		for _, item := range v {
			if !takes(item, left) {
				return false
			}
		}
	case map[any]any:
		for key, item := range v {
			if !takes(key, left) || !takes(item, left) {
				return false
			}
		}
	}
	return *left >= 0
}
