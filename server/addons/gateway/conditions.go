package gateway

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	mostMessage    = 1000 // bytes
	mostConditions = 8    // of an object, by the CRDs
	mostQuoted     = 80   // bytes of what an object says
)

// reasonBounds is that of conditions of what is left out.
const reasonBounds = "TooManyRoutes"

// problem is a reason and a message of a condition; none if the reason is empty.
type problem struct{ reason, message string }

func (p problem) is() bool { return p.reason != "" }

// problemf is a problem with a message.
func problemf[R ~string](reason R, format string, args ...any) problem {
	return problem{string(reason), fmt.Sprintf(format, args...)}
}

// or is the first problem of the two.
func (p problem) or(other problem) problem {
	if p.is() {
		return p
	}
	return other
}

// quote spells what an object says, which may be long, or have bytes that no terminal should get.
func quote[S ~string](s S) string { return fmt.Sprintf("%q", clip(string(s), mostQuoted)) }

// clip is s, or its beginning if it is long.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	cut := most - len("...")
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}

// conditions are those of one object, listener or parent, that are being written.
type conditions struct {
	list       []metav1.Condition
	generation int64
	now        metav1.Time
}

// conditionsOn begins with the present conditions: ours, whose time of transition counts, and as many of others as
// there is room for.
func (r *work) conditionsOn(present []metav1.Condition, generation int64, ours ...string) *conditions {
	c := &conditions{generation: generation, now: r.Now}
	room := mostConditions - len(ours)
	for i := range present {
		p := &present[i]
		mine := slices.Contains(ours, p.Type)
		if meta.FindStatusCondition(c.list, p.Type) != nil || !mine && room == 0 {
			continue
		}
		if !mine {
			room--
		}
		c.list = append(c.list, *p)
		if last := &c.list[len(c.list)-1]; last.LastTransitionTime.IsZero() {
			last.LastTransitionTime = c.now
		}
	}
	return c
}

// set writes a condition.
func set[T, R ~string](c *conditions, typ T, status metav1.ConditionStatus, reason R, message string) {
	meta.SetStatusCondition(&c.list, metav1.Condition{Type: string(typ), Status: status, Reason: string(reason),
		Message: clip(strings.ToValidUTF8(message, "?"), mostMessage), ObservedGeneration: c.generation,
		LastTransitionTime: c.now})
}

// judge writes a condition that is True unless there is a problem.
func judge[T, R ~string](c *conditions, typ T, p problem, reason R, message string) {
	if p.is() {
		set(c, typ, metav1.ConditionFalse, p.reason, p.message)
		return
	}
	set(c, typ, metav1.ConditionTrue, reason, message)
}

// remove takes a condition away.
func remove[T ~string](c *conditions, typ T) { meta.RemoveStatusCondition(&c.list, string(typ)) }

// several is the text of problems, of the first few.
func several(problems []problem) string {
	const most = 3
	var texts []string
	for _, p := range problems[:min(len(problems), most)] {
		texts = append(texts, p.message)
	}
	out := strings.Join(texts, "; ")
	if more := len(problems) - most; more > 0 {
		out += fmt.Sprintf("; and %d more", more)
	}
	return out
}
