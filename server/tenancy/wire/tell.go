package wire

// Told is what a document says of itself in its metadata.
type Told struct{ Name, GenerateName, Tenant string }

// Tell reads a JSON document as far as it can be read. Of what comes twice the
// last one counts, as for those who decode it.
func Tell(body []byte) Told {
	var told Told
	s := &scanner{src: body}
	if s.peek() != '{' {
		return told
	}
	m := s.open()
	for key, ok := s.next(&m); ok; key, ok = s.next(&m) {
		if string(key) != "metadata" || s.peek() != '{' {
			s.skip()
			continue
		}
		meta := s.open()
		for key, ok := s.next(&meta); ok; key, ok = s.next(&meta) {
			var to *string
			switch string(key) {
			case "name":
				to = &told.Name
			case "generateName":
				to = &told.GenerateName
			case "tenant":
				to = &told.Tenant
			}
			if to == nil || s.peek() != '"' {
				s.skip()
				continue
			}
			*to = s.text()
		}
	}
	return told
}

// TellPatch is Tell for what the operations of a JSON patch write.
func TellPatch(body []byte) Told {
	var told Told
	s := &scanner{src: body}
	if s.peek() != '[' {
		return told
	}
	for n := 0; s.element(n); n++ {
		if s.peek() != '{' {
			s.skip()
			continue
		}
		var path string
		var value []byte
		m := s.open()
		for key, ok := s.next(&m); ok; key, ok = s.next(&m) {
			begin := s.pos
			switch {
			case string(key) == "path" && s.peek() == '"':
				path = s.text()
			case string(key) == "value":
				s.skip()
				value = body[begin:s.pos]
			default:
				s.skip()
			}
		}
		var is Told
		switch path {
		case "":
			is = Tell(value)
		case "/metadata":
			is = Tell(within(`{"metadata":`, value))
		case "/metadata/tenant":
			is = Tell(within(`{"metadata":{"tenant":`, value))
		}
		if is.Tenant != "" {
			told.Tenant = is.Tenant
		}
	}
	return told
}

// within is a value in the place where Tell looks for it, which does not look for
// the end.
func within(head string, value []byte) []byte { return append([]byte(head), value...) }

// WithName is a JSON document with another name, and everything else as it is.
func WithName(body []byte, name string) ([]byte, error) {
	s := &scanner{src: body, dst: make([]byte, 0, Room(len(body))), keepLines: true}
	if s.peek() != '{' {
		s.malformed("an object was expected")
		return nil, s.err
	}
	m := s.open()
	for key, ok := s.next(&m); ok; key, ok = s.next(&m) {
		if string(key) != "metadata" || s.peek() != '{' {
			s.skip()
			continue
		}
		meta := s.open()
		for key, ok := s.next(&meta); ok; key, ok = s.next(&meta) {
			s.skip()
			if string(key) == "name" {
				meta.drop(s)
			}
		}
		if s.err == nil {
			meta.insert(s)
			s.dst = appendJSONString(append(s.dst, `"name":`...), name)
		}
	}
	if s.err != nil {
		return nil, s.err
	}
	s.flush(len(body))
	return s.dst, nil
}
