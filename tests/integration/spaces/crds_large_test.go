package spaces_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/a4s-io/a4s/internal/config"
	"github.com/a4s-io/a4s/internal/tenantapi"
	"github.com/a4s-io/a4s/tests/nstest"
)

// ofAMegabyte gives a definition more than a megabyte of schema in 6,000 fields, as the largest
// of those have that are in use, with other names for each word.
func ofAMegabyte(word string) func(*apiextensionsv1.CustomResourceDefinition) {
	text := strings.Repeat(word+" is what this field is about. ", 6)[:160]
	return func(crd *apiextensionsv1.CustomResourceDefinition) {
		parts := map[string]apiextensionsv1.JSONSchemaProps{}
		for i := range 60 {
			part := apiextensionsv1.JSONSchemaProps{Type: "object",
				Properties: map[string]apiextensionsv1.JSONSchemaProps{}}
			for j := range 100 {
				part.Properties[fmt.Sprintf("%s%d", word, j)] = apiextensionsv1.JSONSchemaProps{Type: "string",
					Description: text}
			}
			parts[fmt.Sprintf("part%d", i)] = part
		}
		crd.Spec.Versions[0].Schema.OpenAPIV3Schema = &apiextensionsv1.JSONSchemaProps{Type: "object",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {Type: "object", Properties: parts}}}
	}
}

// TestLargeDefinitions: the largest definitions that are in use are served in a tenant
// without further ado, several of them, and its limit of bytes says how to have more.
func TestLargeDefinitions(t *testing.T) {
	if !nstest.Isolate(t) {
		return
	}
	// What is weighed is not etcd's log of recent writes, of which a slow machine has more: each that meets a
	// conflict has the whole definition in it.
	p := start(t, func(s *config.Server) {
		if s.DatastoreEndpoint == "" {
			s.EtcdArgs = []string{"snapshot-count=10", "snapshot-catchup-entries=1"}
		}
	})
	words := []string{"workflows", "templates", "crontasks", "servings"}
	weigh := func(s *space) (each int64) {
		t.Helper()
		before := holds(t, p)
		profile(t, "before-"+s.name)
		for _, word := range words {
			gvr := s.define(t, definition(word+".example.com", ofAMegabyte(word)))
			s.makes(t, gvr, "default", foo(gvr, "one", map[string]any{"part1": map[string]any{word + "1": "x"}}))
		}
		after := holds(t, p)
		profile(t, "after-"+s.name)
		each = (after.heap - before.heap) >> 10 / int64(len(words))
		t.Logf("%s: %d KiB of heap for each of %d definitions", s.name, each, len(words))
		return each
	}
	a := p.bareTenant(t, "a")
	// What another tenant has of the same ones is not the schema again, nor what is made of it, but what watches have
	// seen of them lately. That is more where they were written more often, so the lesser of two tenants counts.
	first := weigh(a)
	if other := min(weigh(p.bareTenant(t, "b")), weigh(p.bareTenant(t, "c"))); other > first/3 {
		t.Errorf("the same definitions take %d KiB each in another tenant, and %d in the first", other, first)
	}
	used := p.usage(t, "a", tenantapi.LimitDefinitionBytes)
	if size := used.Used.Value(); size < 4<<20 || used.Limit == nil || used.Limit.Value() != 16<<20 {
		t.Errorf("the status says %s of %v", used.Used.String(), used.Limit)
	}
	p.bounded(t, "a", `{"definitionBytes":"5Mi"}`)
	_, err := a.definitions(t).Create(t.Context(), definition("more.example.com", ofAMegabyte("more")),
		metav1.CreateOptions{})
	for _, part := range []string{"definitionBytes, requested: 1", "used: " + fmt.Sprint(used.Used.Value()),
		"limited: 5242880", "raise spec.limits.definitionBytes"} {
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), part) {
			t.Errorf("one too many is refused with %v, and not with %s", err, part)
		}
	}
	// What is there can be deleted, and what the system says of it is written, beyond the limit.
	p.bounded(t, "a", `{"definitionBytes":"1Mi"}`)
	small := definition("small.example.com")
	if _, err := a.definitions(t).Create(t.Context(), small, metav1.CreateOptions{}); err == nil ||
		!strings.Contains(err.Error(), "spec.limits.definitionBytes") {
		t.Errorf("a small one beyond the limit: %v", err)
	}
	for _, word := range words {
		if err := a.definitions(t).Delete(t.Context(), "foos."+word+".example.com",
			metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	}
	eventually(t, "the definitions to be gone", func(ctx context.Context) (bool, error) {
		left, err := a.definitions(t).List(ctx, metav1.ListOptions{})
		return err == nil && len(left.Items) == 0, err
	})
	eventually(t, "a small one to be let in", func(ctx context.Context) (bool, error) {
		_, err := a.definitions(t).Create(ctx, small, metav1.CreateOptions{})
		return err == nil, nil // for a moment the others still count
	})
}

// TestDefinitionsOfPrograms weighs real definitions, in two tenants one after the other. They are
// in files below A4S_TEST_DEFINITIONS, in a directory for each program.
func TestDefinitionsOfPrograms(t *testing.T) {
	root := os.Getenv("A4S_TEST_DEFINITIONS")
	if root == "" {
		t.Skip("A4S_TEST_DEFINITIONS names no directory")
	}
	if !nstest.Isolate(t) {
		return
	}
	programs, err := os.ReadDir(root)
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, nil)
	for _, tenant := range []string{"a", "b"} {
		s := p.bareTenant(t, tenant)
		first := holds(t, p)
		profile(t, "before-"+tenant)
		before, taken, many := first, int64(0), 0
		for _, of := range programs {
			here := definitionsIn(t, filepath.Join(root, of.Name()))
			for _, crd := range here {
				if _, err := s.definitions(t).Create(t.Context(), crd, metav1.CreateOptions{}); err != nil {
					t.Errorf("%s is refused: %v", crd.Name, err)
					continue
				}
				for _, v := range crd.Spec.Versions {
					if v.Served {
						s.serves(t, schema.GroupVersionResource{Group: crd.Spec.Group, Version: v.Name,
							Resource: crd.Spec.Names.Plural})
					}
				}
			}
			now, after := p.usage(t, tenant, tenantapi.LimitDefinitionBytes).Used, holds(t, p)
			t.Logf("%s: %-20s %3d definitions, %5d KiB, %6.1f MiB of heap", tenant, of.Name(), len(here),
				(now.Value()-taken)>>10, float64(after.heap-before.heap)/(1<<20))
			before, taken, many = after, now.Value(), many+len(here)
		}
		profile(t, "after-"+tenant)
		t.Logf("%s: all %3d definitions, %d KiB, %d MiB of heap", tenant, many, taken>>10,
			(before.heap-first.heap)>>20)
	}
}

// definitionsIn are those in the files of a directory.
func definitionsIn(t *testing.T, dir string) (out []*apiextensionsv1.CustomResourceDefinition) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		content, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		for documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), 4096); ; {
			crd := &apiextensionsv1.CustomResourceDefinition{}
			if err := documents.Decode(crd); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", f.Name(), err)
			}
			if crd.Kind == "CustomResourceDefinition" {
				out = append(out, crd)
			}
		}
	}
	return out
}
