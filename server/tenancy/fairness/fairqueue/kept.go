package fairqueue

// Keep says that the request keeps so many bytes in memory until Let, or until it ends: an
// answer whose client has not read it. It reports false, and counts nothing, if the requests
// of its flow would keep more than Options.Kept then; one alone may keep any number.
func (s *Seat) Keep(bytes int) bool {
	if s == nil {
		return true
	}
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	if most := s.q.opts.Kept; most > 0 && s.flow.kept > 0 && s.flow.kept+bytes > most {
		return false
	}
	if !s.ended {
		s.kept += bytes
		s.flow.kept += bytes
	}
	return true
}

// Let says that the request keeps so many bytes less.
func (s *Seat) Let(bytes int) {
	if s == nil {
		return
	}
	s.q.mu.Lock()
	defer s.q.mu.Unlock()
	bytes = min(bytes, s.kept)
	s.kept -= bytes
	s.flow.kept -= bytes
}
