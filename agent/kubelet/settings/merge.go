package settings

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// Merge lays the operator's configuration file over a generated one: objects
// are merged by key, anything else is replaced.
func Merge(base, user []byte) ([]byte, error) {
	var below, above map[string]any
	if err := yaml.Unmarshal(base, &below); err != nil {
		return nil, fmt.Errorf("generated configuration: %w", err)
	}
	if err := yaml.UnmarshalStrict(user, &above); err != nil {
		return nil, err
	}
	merge(below, above)
	return yaml.Marshal(below)
}

func merge(below, above map[string]any) {
	for key, value := range above {
		object, isObject := value.(map[string]any)
		under, both := below[key].(map[string]any)
		if isObject && both {
			merge(under, object)
			continue
		}
		below[key] = value
	}
}
