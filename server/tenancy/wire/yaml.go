package wire

import (
	"fmt"

	"sigs.k8s.io/yaml"
)

// YAML translates one YAML document, see JSON.
func (p *Projector) YAML(d Direction, r Resource, body []byte) ([]byte, error) {
	asJSON, err := yaml.YAMLToJSON(body)
	if err != nil {
		return nil, fmt.Errorf("%w: YAML: %w", ErrMalformed, err)
	}
	if asJSON, err = p.JSON(d, r, asJSON); err != nil {
		return nil, err
	}
	out, err := yaml.JSONToYAML(asJSON)
	if err != nil {
		return nil, fmt.Errorf("%w: YAML: %w", ErrMalformed, err)
	}
	return out, nil
}
