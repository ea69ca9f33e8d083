package replicated

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
)

// ErrSealed is the cause of what cannot be opened.
var ErrSealed = errors.New("it was sealed by a server with another service-account key")

// Box seals for one purpose.
type Box struct {
	// Purpose makes the key differ from any other one that is derived from
	// the same secret.
	Purpose string
	// Label is where the sealed text is kept; it opens nowhere else.
	Label string
}

func (b Box) aead(secret []byte) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, b.Purpose, 32)
	if err != nil {
		return nil, fmt.Errorf("deriving a key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Seal makes of text what only holders of the secret can read or make.
func (b Box) Seal(secret, text []byte) ([]byte, error) {
	a, err := b.aead(secret)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, a.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, fmt.Errorf("making a nonce: %w", err)
	}
	return a.Seal(nonce, nonce, text, []byte(b.Label)), nil
}

// Open is the reverse of Seal. It fails with ErrSealed.
func (b Box) Open(secret, sealed []byte) ([]byte, error) {
	a, err := b.aead(secret)
	if err != nil {
		return nil, err
	}
	if len(sealed) < a.NonceSize() {
		return nil, ErrSealed
	}
	text, err := a.Open(nil, sealed[:a.NonceSize()], sealed[a.NonceSize():], []byte(b.Label))
	if err != nil {
		return nil, ErrSealed
	}
	return text, nil
}
