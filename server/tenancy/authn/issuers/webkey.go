package issuers

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"slices"
)

// Bounds of a key: to verify with one of a million bits takes minutes.
const (
	minBits, maxBits = 2048, 4096
	maxExponent      = 65537
	// maxNumber is how long a number of a key is written at most, which is the modulus.
	maxNumber = maxBits/8*4/3 + 4
	maxID     = 1024
)

// webKey is what is read of a JSON web key. The library that verifies tokens would read all of one, and check
// what a private key of any length says: that takes longer the longer it is.
type webKey struct {
	Type  string `json:"kty"`
	Use   string `json:"use"`
	ID    string `json:"kid"`
	N     string `json:"n"`
	E     string `json:"e"`
	Curve string `json:"crv"`
	X     string `json:"x"`
	Y     string `json:"y"`
	// D is what only a private key has.
	D json.RawMessage `json:"d"`
}

// usable are the keys that can verify a token, in bounded time. Others are left out, as is what cannot be
// read: a provider may have keys for other purposes.
func usable(set []json.RawMessage) []key {
	var out []key
	for _, raw := range set {
		var web webKey
		if json.Unmarshal(raw, &web) != nil || web.Use != "" && web.Use != "sig" || len(web.D) > 0 ||
			len(web.ID) > maxID {
			continue
		}
		if public := web.public(); public != nil {
			out = append(out, key{id: web.ID, key: public})
		}
	}
	return out
}

// public is nil for what is no key that can be used.
func (w *webKey) public() publicKey {
	switch w.Type {
	case "RSA":
		return w.rsa()
	case "EC":
		return w.ec()
	}
	return nil
}

func (w *webKey) rsa() publicKey {
	n, e := number(w.N), number(w.E)
	if bits := n.BitLen(); bits < minBits || bits > maxBits || e.Cmp(big.NewInt(2)) < 0 ||
		e.Cmp(big.NewInt(maxExponent)) > 0 {
		return nil
	}
	return &rsa.PublicKey{N: n, E: int(e.Int64())}
}

func (w *webKey) ec() publicKey {
	var curve elliptic.Curve
	switch w.Curve {
	case "P-256":
		curve = elliptic.P256()
	case "P-384":
		curve = elliptic.P384()
	case "P-521":
		curve = elliptic.P521()
	default:
		return nil
	}
	size := (curve.Params().BitSize + 7) / 8
	x, y := bytesOf(w.X), bytesOf(w.Y)
	if len(x) != size || len(y) != size {
		return nil
	}
	public, err := ecdsa.ParseUncompressedPublicKey(curve, slices.Concat([]byte{4}, x, y))
	if err != nil {
		return nil
	}
	return public
}

// number is 0 for what is none, or too long.
func number(text string) *big.Int { return new(big.Int).SetBytes(bytesOf(text)) }

func bytesOf(text string) []byte {
	if len(text) > maxNumber {
		return nil
	}
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	return b
}

// publicKey is one that knows whether it is another.
type publicKey interface{ Equal(crypto.PublicKey) bool }
