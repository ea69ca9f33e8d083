package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf8"

	goyaml "sigs.k8s.io/yaml/goyaml.v2"
)

// twiceWriter writes JSON in which keys come twice, as in the YAML that it is made
// of. The reader of YAML says in which lines the values are, in the order in which
// it has read them.
type twiceWriter struct {
	dst   []byte
	line  int
	said  []string
	lines map[*goyaml.MapItem]int
}

// errMerges is YAML with merge keys, whose parts an ordered map does not have.
var errMerges = errors.New("merge keys")

// withTwice makes JSON of YAML in which keys come twice, said of which the strict
// reader of YAML has complained.
func withTwice(body []byte, said []string) ([]byte, error) {
	if bytes.Contains(body, []byte("<<")) {
		return nil, errMerges
	}
	var doc goyaml.MapSlice
	if err := goyaml.Unmarshal(body, &doc); err != nil {
		return nil, fmt.Errorf("reading YAML in its order: %w", err)
	}
	w := &twiceWriter{line: 1, said: said, lines: map[*goyaml.MapItem]int{}}
	w.find(doc)
	err := w.write(doc)
	return w.dst, err
}

// find finds the values of keys that come again, behind what is in them.
func (w *twiceWriter) find(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			w.find(item)
		}
	case goyaml.MapSlice:
		seen := map[any]bool{}
		for i := range v {
			w.find(v[i].Value)
			switch v[i].Key.(type) {
			case goyaml.MapSlice, []any:
				continue // it cannot be a key of JSON
			}
			if seen[v[i].Key] && len(w.said) > 0 {
				var line int
				if _, err := fmt.Sscanf(w.said[0], "line %d:", &line); err == nil {
					w.lines[&v[i]] = line
				}
				w.said = w.said[1:]
			}
			seen[v[i].Key] = true
		}
	}
}

func (w *twiceWriter) write(v any) error {
	switch v := v.(type) {
	case []any:
		w.dst = append(w.dst, '[')
		for i, item := range v {
			if i > 0 {
				w.dst = append(w.dst, ',')
			}
			if err := w.write(item); err != nil {
				return err
			}
		}
		w.dst = append(w.dst, ']')
	case goyaml.MapSlice:
		w.dst = append(w.dst, '{')
		for i := range v {
			if i > 0 {
				w.dst = append(w.dst, ',')
			}
			key, err := keyOfJSON(v[i].Key)
			if err != nil {
				return err
			}
			w.dst = append(appendJSONString(w.dst, key), ':')
			for ; w.line < w.lines[&v[i]]; w.line++ {
				w.dst = append(w.dst, '\n')
			}
			if err := w.write(v[i].Value); err != nil {
				return err
			}
		}
		w.dst = append(w.dst, '}')
	default:
		b, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("writing a value of YAML: %w", err)
		}
		w.dst = append(w.dst, b...)
	}
	return nil
}

// keyOfJSON is a key of YAML as one of JSON.
func keyOfJSON(key any) (string, error) {
	switch key := key.(type) {
	case string:
		return key, nil
	case int:
		return strconv.Itoa(key), nil
	case bool:
		return strconv.FormatBool(key), nil
	}
	return "", fmt.Errorf("%w: a key of type %T", ErrMalformed, key)
}

// printable escapes what readers of YAML do not take in strings, or take for the
// end of a line.
func printable(asJSON []byte) []byte {
	var out []byte
	from := 0
	for i := 0; i < len(asJSON); {
		c := asJSON[i]
		if c < utf8.RuneSelf && c != 0x7f {
			i++
			continue
		}
		r, n := utf8.DecodeRune(asJSON[i:])
		if r == 0x7f || r >= 0x80 && r < 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff ||
			r == 0xfffe || r == 0xffff {
			out = fmt.Appendf(append(out, asJSON[from:i]...), `\u%04x`, r)
			from = i + n
		}
		i += n
	}
	if out == nil {
		return asJSON
	}
	return append(out, asJSON[from:]...)
}
