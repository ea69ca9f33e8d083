package partition

import (
	"path/filepath"

	"github.com/a4s-io/a4s/server/cluster/settings"
	"github.com/a4s-io/a4s/server/partition/directory"
)

// directoryFile is where the server keeps what it knows of all partitions.
func (p *Own) directoryFile() string { return filepath.Join(p.server.Dir, "partition-directory.json") }

// CheckSettings refuses settings that the server may not have after its last start. Of a server that an a4s without a
// record has run it knows what home has registered, if there are several partitions.
func (p *Own) CheckSettings() error {
	had, err := settings.Read(p.server.Dir)
	if err != nil {
		return err
	}
	if had == nil {
		if had, err = p.registered(); err != nil {
			return err
		}
	}
	return had.Check(p.server.Config, p.Name())
}

// registered are the settings of this partition that home knows, as far as this server has heard of it.
func (p *Own) registered() (settings.Record, error) {
	own, err := directory.Recorded(p.directoryFile(), p.Self())
	if err != nil || own == nil {
		return nil, err
	}
	had := settings.Record{}
	// An older server could start with another range of pods and another DNS than it had registered.
	for name, value := range map[string]string{"service-cidr": own.Spec.ServiceCIDR,
		"service-node-port-range": own.Spec.NodePortRange} {
		if value != "" {
			had[name] = value
		}
	}
	return had, nil
}
