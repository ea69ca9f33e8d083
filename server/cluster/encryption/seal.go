package encryption

import "github.com/a4s-io/a4s/server/cluster/sealing"

// errSealed is the cause of what cannot be opened.
var errSealed = sealing.ErrSealed

func box() sealing.Box {
	return sealing.Box{Purpose: "a4s: configuration of the encryption of Secrets, version 1", Label: configKey}
}

// seal makes of text what only holders of the secret can read or make.
func seal(secret, text []byte) ([]byte, error) { return box().Seal(secret, text) }

// unseal is the reverse of seal. It fails with errSealed.
func unseal(secret, sealed []byte) ([]byte, error) { return box().Open(secret, sealed) }
