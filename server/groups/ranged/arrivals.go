package ranged

import "sync"

// arrivals are the true revisions of objects that were put in: the cache gets them with
// the revision of the change, so that its history is in order, and has to keep them with
// their own.
type arrivals struct{ byKey sync.Map } // string to arrival

type arrival struct{ at, revision int64 }

func (a *arrivals) add(key string, at, revision int64) { a.byKey.Store(key, arrival{at, revision}) }

// take returns the true revision of an object that is read with a revision; ok is false
// if it was not put in.
func (a *arrivals) take(key string, revision int64) (own int64, ok bool) {
	found, ok := a.byKey.Load(key)
	if !ok {
		return 0, false
	}
	arrived := found.(arrival)
	a.byKey.CompareAndDelete(key, found)
	return arrived.revision, arrived.at == revision
}
