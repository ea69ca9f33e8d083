package network

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"

	"github.com/a4s-io/a4s/internal/atomicfile"
)

// recordSuffix is how the names of records end.
const recordSuffix = ".json"

// record is what is known about an attachment.
type record struct {
	Pod Pod `json:"pod"`
	// Config is the CNI configuration that it was made with.
	Config json.RawMessage `json:"config"`
	// Attachment is nil while it is being made.
	Attachment *Attachment `json:"attachment,omitempty"`
}

func (m *Manager) recordPath(id string) string {
	return filepath.Join(m.opts.Dir, id+recordSuffix)
}

func (m *Manager) write(r record) error {
	data, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return atomicfile.Write(m.recordPath(r.Pod.ID), data, 0o600)
}

// read returns ErrUnknown if there is no record.
func (m *Manager) read(id string) (record, error) {
	if !validID.MatchString(id) {
		return record{}, fmt.Errorf("%q: %w", id, ErrUnknown)
	}
	data, err := os.ReadFile(m.recordPath(id))
	if errors.Is(err, fs.ErrNotExist) {
		return record{}, fmt.Errorf("%s: %w", id, ErrUnknown)
	}
	if err != nil {
		return record{}, err
	}
	var r record
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, fmt.Errorf("%s: %w", m.recordPath(id), err)
	}
	return r, nil
}

// load reads the node's CNI configuration: the first file by name, as
// containerd does.
func (m *Manager) load() (*libcni.NetworkConfigList, error) {
	files, err := libcni.ConfFiles(m.opts.ConfDir, []string{".conf", ".conflist", ".json"})
	if err != nil {
		return nil, fmt.Errorf("CNI configuration: %w", err)
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there is no CNI configuration in %s yet", m.opts.ConfDir)
	}
	first := slices.Min(files)
	data, err := os.ReadFile(first)
	if err == nil && !strings.HasSuffix(first, ".conflist") {
		data, err = listOfOne(data)
	}
	var list *libcni.NetworkConfigList
	if err == nil {
		list, err = libcni.NetworkConfFromBytes(data)
	}
	if err == nil && len(list.Plugins) == 0 {
		err = errors.New("it names no plugins")
	}
	if err != nil {
		return nil, fmt.Errorf("CNI configuration %s: %w", first, err)
	}
	return list, nil
}

// listOfOne turns the older format, a single plugin, into a list.
func listOfOne(plugin []byte) ([]byte, error) {
	var head struct {
		Name       string `json:"name"`
		CNIVersion string `json:"cniVersion"`
	}
	if err := json.Unmarshal(plugin, &head); err != nil {
		return nil, err
	}
	return json.Marshal(map[string]any{"name": head.Name, "cniVersion": head.CNIVersion,
		"plugins": []json.RawMessage{plugin}})
}

// annotationsCapability is what containerd calls it.
const annotationsCapability = "io.kubernetes.cri.pod-annotations"

// runtimeConf is what plugins are told about a pod: the same as by containerd.
func (m *Manager) runtimeConf(p Pod) *libcni.RuntimeConf {
	c := &libcni.RuntimeConf{
		ContainerID: p.ID,
		NetNS:       m.namespace(p.ID),
		IfName:      Interface,
		Args: [][2]string{
			{"IgnoreUnknown", "1"},
			{"K8S_POD_NAMESPACE", p.Namespace},
			{"K8S_POD_NAME", p.Name},
			{"K8S_POD_INFRA_CONTAINER_ID", p.ID},
			{"K8S_POD_UID", p.UID},
		},
		CapabilityArgs: map[string]any{annotationsCapability: p.Annotations},
	}
	var ports []PortMapping
	for _, port := range p.PortMappings {
		if port.HostPort > 0 {
			port.Protocol = strings.ToLower(port.Protocol)
			ports = append(ports, port)
		}
	}
	if len(ports) > 0 {
		c.CapabilityArgs["portMappings"] = ports
	}
	if len(p.Servers)+len(p.Searches)+len(p.Options) > 0 {
		c.CapabilityArgs["dns"] = map[string][]string{"servers": p.Servers, "searches": p.Searches,
			"options": p.Options}
	}
	if p.CgroupParent != "" {
		c.CapabilityArgs["cgroupPath"] = p.CgroupParent
	}
	return c
}
