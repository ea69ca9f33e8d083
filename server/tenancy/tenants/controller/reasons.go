package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/a4s-io/a4s/internal/space"
	"github.com/a4s-io/a4s/server/tenancy/tenants/contents"
)

const (
	// lookedAt is at how many objects of a resource a report looks for its examples.
	lookedAt = 20
	// maxMessage is how long a message can be, in bytes.
	maxMessage = 2048
)

// reasons says of some objects why they are still there, in native names: whoever
// reads it knows the Tenant.
func (e *emptying) reasons(ctx context.Context, left []contents.Resource) string {
	var out []string
	for t := range len(reportTurns) + 1 {
		for _, r := range left {
			// Custom resources are what most of the rest waits for.
			custom := !e.builtIn[r.Group]
			if custom != (t == 0) || !custom && turn(r.GroupResource) != reportTurns[t-1] {
				continue
			}
			out = append(out, e.examples(ctx, r, examples-len(out))...)
		}
	}
	if len(out) == 0 {
		return ""
	}
	return ": " + strings.Join(out, ", ")
}

// reportTurns is in which order a report looks for examples, after custom resources.
var reportTurns = [...]int{workloads, hooks, rest, definitions, namespaces}

// examples are objects of a resource with what holds them.
func (e *emptying) examples(ctx context.Context, r contents.Resource, most int) (out []string) {
	if most == 0 {
		return nil
	}
	a, err := e.api(ctx, r)
	if err != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeFor)
	defer cancel()
	for _, o := range r.Objects[:min(lookedAt, len(r.Objects))] {
		m, err := e.metadata.Resource(a.GroupVersionResource).Namespace(o.Namespace).Get(ctx, o.Name,
			metav1.GetOptions{})
		why := ""
		switch {
		case unreadable(err):
			why = "cannot be read: " + err.Error()
		case err == nil:
			why = reason(m)
		}
		if why == "" {
			continue
		}
		if out = append(out, fmt.Sprintf("%s %s %s", r.GroupResource, native(o), why)); len(out) == most {
			break
		}
	}
	return out
}

func reason(m *metav1.PartialObjectMetadata) string {
	switch {
	case len(m.Finalizers) > 0:
		var parts []string
		for _, f := range slices.Sorted(slices.Values(m.Finalizers)) {
			if by := setBy(m, f); by != "" {
				f += " (set by " + by + ")"
			}
			parts = append(parts, f)
		}
		return "is held by " + strings.Join(parts, " and ")
	case m.DeletionGracePeriodSeconds != nil && *m.DeletionGracePeriodSeconds > 0:
		return fmt.Sprintf("has %d seconds to end", *m.DeletionGracePeriodSeconds)
	}
	return ""
}

// setBy is who set a finalizer, as the managed fields of the object have it.
func setBy(m *metav1.PartialObjectMetadata, finalizer string) string {
	for _, entry := range m.ManagedFields {
		// No need to decode what does not name it.
		if entry.FieldsV1 == nil || !bytes.Contains(entry.FieldsV1.GetRawBytes(), []byte("f:finalizers")) {
			continue
		}
		var fields struct {
			Metadata struct {
				Finalizers map[string]json.RawMessage `json:"f:finalizers"`
			} `json:"f:metadata"`
		}
		if json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		if _, ok := fields.Metadata.Finalizers["v:"+strconv.Quote(finalizer)]; ok {
			return entry.Manager
		}
	}
	return ""
}

// said is text of which a tenant may have chosen parts as a message: of a bounded length,
// and with nothing in it that a terminal would do something for.
func said(text string) string {
	var b strings.Builder
	for _, r := range text {
		part := string(r)
		if !unicode.IsPrint(r) || r == unicode.ReplacementChar {
			part = strings.Trim(strconv.QuoteRuneToASCII(r), "'")
		}
		if b.Len()+len(part) > maxMessage {
			b.WriteString(" ...")
			break
		}
		b.WriteString(part)
	}
	return b.String()
}

func native(o contents.Object) string {
	if o.Namespace == "" {
		if tenant, name := space.SplitClusterName(o.Name); tenant != space.System {
			return name
		}
		_, name := space.SplitNamespace(o.Name)
		return name
	}
	_, ns := space.SplitNamespace(o.Namespace)
	return ns + "/" + o.Name
}
