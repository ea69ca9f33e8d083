package joinapi

// EncryptionStage tells how far the encryption of Secrets at rest is changed.
type EncryptionStage string

// The stages, in the order of a rotation.
const (
	// EncryptionDisabled means that Secrets are written in plain text.
	EncryptionDisabled EncryptionStage = "disabled"
	// EncryptionEnabled means that they are written with the only key.
	EncryptionEnabled EncryptionStage = "enabled"
	// EncryptionKeyAdded means that there is a second key to read with.
	EncryptionKeyAdded EncryptionStage = "key-added"
	// EncryptionKeyPromoted means that Secrets are written with the new key,
	// and that the old one is still read with.
	EncryptionKeyPromoted EncryptionStage = "key-promoted"
)

// EncryptionAction changes how Secrets are stored.
type EncryptionAction string

// The actions.
const (
	EncryptionEnable    EncryptionAction = "enable"
	EncryptionDisable   EncryptionAction = "disable"
	EncryptionRotate    EncryptionAction = "rotate"
	EncryptionReencrypt EncryptionAction = "reencrypt"
)

// EncryptionRequest asks for an action.
type EncryptionRequest struct {
	Action EncryptionAction `json:"action"`
}

// EncryptionStatus tells how the Secrets of the system and of all tenants are
// stored.
type EncryptionStatus struct {
	Stage EncryptionStage `json:"stage"`
	// ActiveKey is what they are written with, "" for plain text.
	ActiveKey string `json:"activeKey"`
	// Keys are all that are read with.
	Keys []string `json:"keys"`
	// Path is that of the file with the keys, and Hash that of its content.
	Path string `json:"path"`
	Hash string `json:"hash"`
	// LoadedHash is that of the content that the API server works with.
	LoadedHash string `json:"loadedHash"`
	// Servers are all that share the datastore, with embedded etcd.
	Servers []EncryptionServer `json:"servers,omitempty"`
	// Stored counts Secrets by the key that they are stored with; "none" is
	// plain text.
	Stored map[string]int `json:"stored"`
	// Pending counts those that are not stored with ActiveKey.
	Pending int `json:"pending"`
	// Job is the last change since the server started.
	Job *EncryptionJob `json:"job,omitempty"`
	// Flag says that the server runs with --secrets-encryption.
	Flag bool `json:"flag"`
}

// EncryptionServer says of one server whether its API works with the keys that
// the cluster has agreed on.
type EncryptionServer struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
}

// EncryptionJob is a change in progress, or the last one.
type EncryptionJob struct {
	Action  EncryptionAction `json:"action"`
	Running bool             `json:"running"`
	Step    string           `json:"step"`
	// Done of Total Secrets are stored as they should be.
	Done  int `json:"done"`
	Total int `json:"total"`
	// Error is why it stopped.
	Error string `json:"error,omitempty"`
}
