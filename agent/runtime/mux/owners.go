package mux

import "sync"

// owners remembers which runtime has which sandbox or container. With a single
// runtime nothing needs to be remembered.
type owners struct{ ids sync.Map }

func (o *owners) of(id []byte) *service {
	if s, ok := o.ids.Load(string(id)); ok {
		return s.(*service)
	}
	return nil
}

func (o *owners) set(id []byte, s *service) {
	if len(id) == 0 || o.of(id) == s {
		return
	}
	o.ids.Store(string(id), s)
}

func (o *owners) forget(id []byte) { o.ids.Delete(string(id)) }

// forgetAll drops what a runtime has that is not registered any more.
func (o *owners) forgetAll(s *service) {
	o.ids.Range(func(id, owner any) bool {
		if owner == s {
			o.ids.Delete(id)
		}
		return true
	})
}
