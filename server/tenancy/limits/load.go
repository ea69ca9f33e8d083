package limits

// wrote tells the load of a tenant of a write. Only one that succeeds is one of a tenant
// that exists.
func (s *limited) wrote(tenant string, err error) {
	if s.limits.load != nil && err == nil {
		s.limits.load.Wrote(tenant)
	}
}

// Objects is how many objects a tenant has, as far as they are counted.
func (l *Limits) Objects(tenant string) int64 { return l.accounting.used(tenant)[objects] }
