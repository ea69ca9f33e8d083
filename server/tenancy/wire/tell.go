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
