package edge

import (
	"encoding/json"
	"fmt"
	"regexp"
)

// tenantField is the field of the metadata that objects have in every space.
const tenantField = "tenant"

// objectMeta is the model of the metadata of objects, under the names that it has
// where those of several servers come together.
var objectMeta = regexp.MustCompile(`^io\.k8s\.apimachinery\.pkg\.apis\.meta\.v1\.ObjectMeta(_v\d+)?$`)

// tenantSchema is what documents say of the field, in all versions of OpenAPI.
var tenantSchema = json.RawMessage(`{"description":"Tenant is the space that the object is in. It is set by the API ` +
	`server from the address of the request and the identity of the user, and cannot be changed.","type":"string"}`)

// declareTenant adds the field to the models that are found in an OpenAPI document
// under some keys: clients check and merge by them what the API server sends.
func declareTenant(document []byte, keys ...string) ([]byte, error) {
	if len(document) == 0 {
		return document, nil
	}
	doc, err := members(document)
	if err != nil {
		return nil, err
	}
	if len(keys) > 0 {
		if len(doc[keys[0]]) == 0 {
			return document, nil
		}
		if doc[keys[0]], err = declareTenant(doc[keys[0]], keys[1:]...); err != nil {
			return nil, err
		}
		return json.Marshal(doc)
	}
	for name := range doc {
		if !objectMeta.MatchString(name) {
			continue
		}
		model, err := members(doc[name])
		if err != nil {
			return nil, err
		}
		fields, err := members(model["properties"])
		if err != nil {
			return nil, err
		}
		fields[tenantField] = tenantSchema
		if model["properties"], err = json.Marshal(fields); err == nil {
			doc[name], err = json.Marshal(model)
		}
		if err != nil {
			return nil, fmt.Errorf("encoding the model %s: %w", name, err)
		}
	}
	return json.Marshal(doc)
}
