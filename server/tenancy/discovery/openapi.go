package discovery

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/controller/openapi/builder"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// options are how upstream's controllers build documents.
func options(v2 bool) builder.Options {
	return builder.Options{V2: v2, IncludeSelectableFields: true}
}

// GroupVersions are all that are served.
func (s Set) GroupVersions() []schema.GroupVersion {
	var out []schema.GroupVersion
	for _, group := range s.groupNames() {
		for _, v := range s.versions(group) {
			out = append(out, schema.GroupVersion{Group: group, Version: v})
		}
	}
	return out
}

// OpenAPI3 is the document of a group version, nil if it is not served. Like
// upstream's it says nothing of a CRD that cannot be described: that
// must not keep the others out of it.
func (s Set) OpenAPI3(gv schema.GroupVersion) *spec3.OpenAPI {
	var out *spec3.OpenAPI
	for _, crd := range s.serving(gv) {
		one, err := builder.BuildOpenAPIV3(crd, gv.Version, options(false))
		switch {
		case err != nil:
		case out == nil:
			out = one
		default:
			if merged, err := builder.MergeSpecsV3(out, one); err == nil {
				out = merged
			}
		}
	}
	return out
}

// OpenAPI2 is what all served versions add to a document of version 2, and
// static, which are those of its models and parameters that could have the
// same names: where they differ, upstream's stay and ours get others.
func (s Set) OpenAPI2(static *spec.Swagger) (*spec.Swagger, error) {
	var all []*spec.Swagger
	for _, crd := range s {
		for _, v := range crd.Spec.Versions {
			if !v.Served {
				continue
			}
			if one, err := builder.BuildOpenAPIV2(crd, v.Name, options(true)); err == nil {
				one.Definitions = handler.PruneDefaults(one.Definitions)
				all = append(all, one)
			}
		}
	}
	more, err := builder.MergeSpecs(&spec.Swagger{}, all...)
	if err != nil {
		return nil, fmt.Errorf("merging OpenAPI: %w", err)
	}
	// The document of upstream went over the wire. Equal models of both are
	// found to be equal only if these did, too.
	if more, err = overWire(more); err != nil {
		return nil, err
	}
	merged, err := builder.MergeSpecs(static, more)
	if err != nil {
		return nil, fmt.Errorf("merging OpenAPI: %w", err)
	}
	return merged, nil
}

func overWire(s *spec.Swagger) (*spec.Swagger, error) {
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("encoding OpenAPI: %w", err)
	}
	out := new(spec.Swagger)
	if err := json.Unmarshal(b, out); err != nil {
		return nil, fmt.Errorf("decoding OpenAPI: %w", err)
	}
	return out, nil
}

// Digests say in short what the set says of each group version that is served:
// two sets with the same digest of it say the same.
func (s Set) Digests() (map[schema.GroupVersion]string, error) {
	of := map[*apiextensionsv1.CustomResourceDefinition][]byte{}
	for _, crd := range s {
		terminating := apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Terminating)
		said, err := json.Marshal([]any{crd.Spec, crd.Status.AcceptedNames, terminating})
		if err != nil {
			return nil, fmt.Errorf("digesting %s: %w", crd.Name, err)
		}
		sum := sha256.Sum256(said)
		of[crd] = sum[:]
	}
	out := map[schema.GroupVersion]string{}
	for _, gv := range s.GroupVersions() {
		sum := sha256.New()
		for _, crd := range s.serving(gv) {
			sum.Write(of[crd])
		}
		out[gv] = strings.ToUpper(hex.EncodeToString(sum.Sum(nil)))
	}
	return out, nil
}
