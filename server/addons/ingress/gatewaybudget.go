package ingress

import (
	"strconv"
	"time"

	"golang.org/x/time/rate"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/space"
)

// A write of a status writes the whole object, which a tenant made as large as it likes, and has written again by a
// change of something small. budgetBytes and budgetWrites are what a tenant has of it, and again every budgetTime.
const (
	budgetBytes  = 64 << 20
	budgetWrites = 1000
	budgetTime   = 5 * time.Minute
)

// sizeAnnotation has the size of an object as it is stored, about, of those that are kept.
const sizeAnnotation = "a4s.io/size"

// budget bounds what is written for one tenant.
type budget struct {
	bytes, writes *rate.Limiter // nil for no bound
	// wait is how long it is until there is something left, 0 while there is.
	wait time.Duration
}

// budget is that of a tenant from now on.
func (l *Leader) budget(tenant string) *budget {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.budgets[tenant]
	if out == nil {
		out = &budget{}
		if !space.IsSystem(tenant) {
			every := budgetTime.Seconds()
			out.bytes = rate.NewLimiter(rate.Limit(budgetBytes/every), budgetBytes)
			out.writes = rate.NewLimiter(rate.Limit(budgetWrites/every), budgetWrites)
		}
		l.budgets[tenant] = out
	}
	out.wait = 0
	return out
}

// spend reports whether an object of this size may be written now. Once one may not, none may in this round.
func (b *budget) spend(size int) bool {
	if b.bytes == nil {
		return true
	}
	if b.wait > 0 {
		return false
	}
	now := time.Now()
	bytes, writes := b.bytes.ReserveN(now, min(size, budgetBytes)), b.writes.ReserveN(now, 1)
	late := max(bytes.DelayFrom(now), writes.DelayFrom(now))
	if late > 0 {
		b.wait = max(late, time.Second)
		bytes.CancelAt(now)
		writes.CancelAt(now)
	}
	return late == 0
}

// sizeOf is the size of an object that is kept.
func sizeOf(of metav1.Object) int {
	size, err := strconv.Atoi(of.GetAnnotations()[sizeAnnotation])
	if err != nil {
		return 0 // it was kept otherwise, by a test
	}
	return size
}

// measure is about how long a value is as JSON.
func measure(value any) (out int) {
	const fixed = 8
	switch v := value.(type) {
	case map[string]any:
		for key, of := range v {
			out += len(key) + measure(of)
		}
	case []any:
		for _, of := range v {
			out += measure(of)
		}
	case string:
		out = len(v)
	}
	return out + fixed
}
