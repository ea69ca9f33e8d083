package disks

import "errors"

// Seed is what cloud-init in a disk image reads at its start (the NoCloud
// source). Empty parts are left out, but for MetaData.
type Seed struct{ MetaData, UserData, NetworkConfig []byte }

// WriteSeed writes a seed as a disk image: an ISO 9660 file system labelled
// cidata.
func WriteSeed(path string, s Seed) error { return errors.ErrUnsupported }
