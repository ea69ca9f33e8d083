package edge

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	openapi_v3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/handler3"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/a4s-io/a4s/server/tenancy/discovery"
)

const (
	openAPI2Proto = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	openAPI3Proto = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
)

// openAPI2 builds the OpenAPI v2 document of a space from upstream's.
func (e *discoveryServer) openAPI2(view *discoveryView, own discovery.Set, body []byte) ([]byte, error) {
	doc, err := members(body)
	if err != nil {
		return nil, err
	}
	shown, err := e.filterPaths(view, doc)
	if err != nil {
		return nil, err
	}
	models, err := members(doc["definitions"])
	if err != nil {
		return nil, err
	}
	e.filterModels(view, models, shown)
	if len(own) > 0 {
		if err := mergeOpenAPI2(doc, models, own); err != nil {
			return nil, err
		}
	}
	if doc["definitions"], err = json.Marshal(models); err != nil {
		return nil, err
	}
	return json.Marshal(doc)
}

// mergeOpenAPI2 adds the CRDs of a space. Only the models and parameters
// of upstream that could have the same names are decoded: the document is
// large, and the rest stays as it is.
func mergeOpenAPI2(doc, models map[string]json.RawMessage, own discovery.Set) error {
	static := &spec.Swagger{}
	static.Definitions = spec.Definitions{}
	for name, model := range models {
		if !strings.HasPrefix(name, "io.k8s.apimachinery.") && !strings.HasPrefix(name, "io.k8s.api.autoscaling.") {
			continue
		}
		var s spec.Schema
		if err := json.Unmarshal(model, &s); err != nil {
			return fmt.Errorf("reading the model %s: %w", name, err)
		}
		static.Definitions[name] = s
	}
	if doc["parameters"] != nil {
		if err := json.Unmarshal(doc["parameters"], &static.Parameters); err != nil {
			return fmt.Errorf("reading the parameters: %w", err)
		}
	}
	merged, err := own.OpenAPI2(static)
	if err != nil {
		return err
	}
	if err := add(models, merged.Definitions, true); err != nil {
		return err
	}
	for name, more := range map[string]func(map[string]json.RawMessage) error{
		"paths": func(into map[string]json.RawMessage) error {
			if merged.Paths == nil {
				return nil
			}
			return add(into, merged.Paths.Paths, false)
		},
		"parameters": func(into map[string]json.RawMessage) error { return add(into, merged.Parameters, false) },
	} {
		into, err := members(doc[name])
		if err != nil {
			return err
		}
		if err := more(into); err != nil {
			return err
		}
		if len(into) == 0 {
			continue
		}
		if doc[name], err = json.Marshal(into); err != nil {
			return err
		}
	}
	return nil
}

// openAPI3 makes the document of version 3 of a group version: of upstream's,
// or alone of the space's own CRDs. It is nil if nothing is left.
func (e *discoveryServer) openAPI3(
	view *discoveryView, own discovery.Set, gv schema.GroupVersion, body []byte,
) ([]byte, error) {
	mine := own.OpenAPI3(gv)
	if body == nil {
		if mine == nil {
			return nil, nil
		}
		return json.Marshal(mine)
	}
	if gv.Group != "" && mine == nil && (!e.hasGroup(view, gv.Group) || !view.hasVersion(&e.discoveryViews, gv)) {
		return nil, nil
	}
	doc, err := members(body)
	if err != nil {
		return nil, err
	}
	shown, err := e.filterPaths(view, doc)
	if err != nil {
		return nil, err
	}
	components, err := members(doc["components"])
	if err != nil {
		return nil, err
	}
	schemas, err := members(components["schemas"])
	if err != nil {
		return nil, err
	}
	e.filterModels(view, schemas, shown)
	if mine != nil {
		if err := mergeOpenAPI3(doc, schemas, mine); err != nil {
			return nil, err
		}
	}
	if len(schemas) > 0 {
		if components["schemas"], err = json.Marshal(schemas); err != nil {
			return nil, err
		}
		if doc["components"], err = json.Marshal(components); err != nil {
			return nil, err
		}
	}
	return json.Marshal(doc)
}

func mergeOpenAPI3(doc, schemas map[string]json.RawMessage, mine *spec3.OpenAPI) error {
	if mine.Components != nil {
		if err := add(schemas, mine.Components.Schemas, false); err != nil {
			return err
		}
	}
	paths, err := members(doc["paths"])
	if err != nil {
		return err
	}
	if mine.Paths != nil {
		if err := add(paths, mine.Paths.Paths, false); err != nil {
			return err
		}
	}
	doc["paths"], err = json.Marshal(paths)
	return err
}

// openAPIIndex makes the list of the documents of version 3, with addresses
// below the prefix that the request came with.
func (e *discoveryServer) openAPIIndex(view *discoveryView, prefix string, body []byte) ([]byte, error) {
	var list handler3.OpenAPIV3Discovery
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("reading the index of OpenAPI documents: %w", err)
	}
	out := handler3.OpenAPIV3Discovery{Paths: map[string]handler3.OpenAPIV3DiscoveryGroupVersion{}}
	for path, at := range list.Paths {
		address, err := url.Parse(at.ServerRelativeURL)
		if err != nil {
			return nil, fmt.Errorf("reading the index of OpenAPI documents: %w", err)
		}
		if gv, ok := strings.CutPrefix(path, "apis/"); ok {
			group, version, _ := strings.Cut(gv, "/")
			of := schema.GroupVersion{Group: group, Version: version}
			if !view.unfiltered && (!e.hasGroup(view, group) ||
				version != "" && view.versions[of] == "" && !view.hasVersion(&e.discoveryViews, of)) {
				continue
			}
			address.RawQuery = hashQuery(view.hash(of, address.Query().Get("hash")))
		} else if hash := address.Query().Get("hash"); hash != "" {
			address.RawQuery = hashQuery(view.hash(schema.GroupVersion{}, hash))
		}
		out.Paths[path] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: prefix + address.String()}
	}
	for gv := range view.versions {
		path := "apis/" + gv.String()
		if _, ok := out.Paths[path]; !ok {
			out.Paths[path] = handler3.OpenAPIV3DiscoveryGroupVersion{ServerRelativeURL: prefix + "/openapi/v3/" +
				path + "?" + hashQuery(view.hash(gv, ""))}
		}
	}
	return json.Marshal(out)
}

func hashQuery(hash string) string { return url.Values{"hash": {hash}}.Encode() }

// models matches the references of a path to models.
var models = regexp.MustCompile(`"\$ref":\s*"#/(?:definitions|components/schemas)/([^"]+)"`)

// filterPaths removes the paths of resources that a space does not have from a
// document. It returns the models of the custom resources that remain.
func (e *discoveryServer) filterPaths(
	view *discoveryView, doc map[string]json.RawMessage,
) (shown map[string]bool, err error) {
	paths, err := members(doc["paths"])
	if err != nil || len(paths) == 0 {
		return nil, err
	}
	shown = map[string]bool{}
	for path, item := range paths {
		r, ok := parsePath(path)
		if !ok {
			continue
		}
		resource := r.resource
		if r.subresource != "" {
			resource += "/" + r.subresource
		}
		if !e.has(view, r.group, resource) {
			delete(paths, path)
			continue
		}
		if _, builtIn := e.kinds.Resource(r.group, r.resource); !builtIn {
			for _, found := range models.FindAllSubmatch(item, -1) {
				shown[string(found[1])] = true
			}
		}
	}
	doc["paths"], err = json.Marshal(paths)
	return shown, err
}

// filterModels removes the models of custom resources that a space does not have.
func (e *discoveryServer) filterModels(view *discoveryView, models map[string]json.RawMessage, shown map[string]bool) {
	for name, model := range models {
		if !shown[name] && e.ofCustomResource(view, model) {
			delete(models, name)
		}
	}
}

// ofCustomResource reports whether a model is only that of a custom resource or its
// list.
func (e *discoveryServer) ofCustomResource(view *discoveryView, model json.RawMessage) bool {
	if !bytes.Contains(model, []byte(`"x-kubernetes-group-version-kind"`)) {
		return false
	}
	var of struct {
		Kinds []struct{ Group, Kind string } `json:"x-kubernetes-group-version-kind"`
	}
	if json.Unmarshal(model, &of) != nil || len(of.Kinds) == 0 {
		return false
	}
	for _, k := range of.Kinds {
		_, builtIn := e.discoveryCache.groups[k.Group]
		if builtIn && !view.hidden[schema.GroupKind{Group: k.Group, Kind: strings.TrimSuffix(k.Kind, "List")}] {
			return false
		}
	}
	return true
}

// members decodes an object one level deep; an empty message has no members.
func members(of json.RawMessage) (map[string]json.RawMessage, error) {
	out := map[string]json.RawMessage{}
	if len(of) == 0 {
		return out, nil
	}
	if err := json.Unmarshal(of, &out); err != nil {
		return nil, fmt.Errorf("reading an OpenAPI document: %w", err)
	}
	return out, nil
}

// add encodes members into an object. It keeps existing members unless replace is set.
func add[V any](into map[string]json.RawMessage, more map[string]V, replace bool) error {
	for name, value := range more {
		if _, there := into[name]; there && !replace {
			continue
		}
		b, err := json.Marshal(value)
		if err != nil {
			return fmt.Errorf("encoding an OpenAPI document: %w", err)
		}
		into[name] = b
	}
	return nil
}

// toProto encodes a document for clients that ask for it.
func toProto(media string, body []byte) ([]byte, error) {
	if media == openAPI2Proto {
		doc, err := openapi_v2.ParseDocument(body)
		if err != nil {
			return nil, fmt.Errorf("encoding OpenAPI v2: %w", err)
		}
		return proto.Marshal(doc)
	}
	doc, err := openapi_v3.ParseDocument(body)
	if err != nil {
		return nil, fmt.Errorf("encoding OpenAPI v3: %w", err)
	}
	return proto.Marshal(doc)
}
