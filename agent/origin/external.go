package origin

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"

	"github.com/a4s-io/a4s/agent/origin/codec"
)

// addExternalIPs adds addresses of type ExternalIP to every status that the
// kubelet reports of its node. The kubelet itself has only a cloud provider for
// them, and takes away what anyone else puts there.
func (t *Transport) addExternalIPs(r *Request) error {
	ips := t.options.ExternalIPs
	if len(ips) == 0 || r.Verb != VerbPatch || r.Resource != nodeResource || r.Namespace != "" ||
		r.Name != t.options.NodeName || r.Subresource != "status" || r.HTTP.Body == nil {
		return nil
	}
	body, err := codec.ReadAll(r.HTTP.Body)
	if err != nil {
		return err
	}
	if body, err = withExternalIPs(body, ips); err != nil {
		return err
	}
	r.SetBody(body)
	return nil
}

// withExternalIPs adds the addresses to a strategic merge patch. Where the patch
// has addresses, it replaces the whole list; where it has none, ours are merged
// into the list by their type.
func withExternalIPs(patch []byte, ips []string) ([]byte, error) {
	var object map[string]any
	if err := json.Unmarshal(patch, &object); err != nil {
		return nil, err
	}
	status, ok := object["status"].(map[string]any)
	if !ok {
		status = map[string]any{}
		object["status"] = status
	}
	addresses, _ := status["addresses"].([]any)
	for _, ip := range ips {
		addresses = append(addresses, map[string]any{"type": string(corev1.NodeExternalIP), "address": ip})
	}
	status["addresses"] = addresses
	return json.Marshal(object)
}
