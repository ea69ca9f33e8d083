package ingress

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestSecretsThatAreOfNoUse: each is told why, and no word of its key.
func TestSecretsThatAreOfNoUse(t *testing.T) {
	fine, other := good(t, "default.t1/cert").Data, good(t, "default.t1/cert").Data
	chain, key := fine[corev1.TLSCertKey], fine[corev1.TLSPrivateKeyKey]
	longChain, longKey := issue(t, longRSA(t))
	block, _ := pem.Decode(key)
	broken := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: block.Bytes[:len(block.Bytes)-9]})
	for name, c := range map[string]struct {
		chain, key []byte
		want       string
	}{
		"nothing":        {nil, nil, "it needs tls.crt and tls.key"},
		"no key":         {chain, nil, "it needs tls.crt and tls.key"},
		"no certificate": {nil, key, "it needs tls.crt and tls.key"},
		"a long chain":   {bytes.Repeat(chain, mostChain/len(chain)+1), key, "tls.crt has more than 65536 bytes"},
		"a long key": {chain, append(bytes.Repeat([]byte("\n"), mostKey), key...),
			"tls.key has more than 8192 bytes"},
		"the key of another": {chain, other[corev1.TLSPrivateKeyKey], "it has no certificate with its key"},
		"no PEM":             {chain, block.Bytes, "it has no certificate with its key"},
		"a broken key":       {chain, broken, "it has no certificate with its key"},
		"a password":         {chain, []byte("password: hunter2"), "it has no certificate with its key"},
		"each as the other":  {key, chain, "it has no certificate with its key"},
		"an RSA key that takes long": {longChain, longKey,
			"its RSA key has 4104 bits, 4096 is the most"},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{ingresses: one(rule("a.x", "Prefix / web:80"), tlsOf("cert", "a.x")),
				services: list(svc("default.t1/web", ":80")),
				secrets:  list(secretOf("default.t1/cert", c.chain, c.key))}
			r := resolve(w.view("t1"))
			said := strings.Join(r.said(), "\n")
			if len(r.certificates) != 0 || r.hosts["a.x"] == nil || r.hosts["a.x"].Certificate != "" ||
				!strings.Contains(said, "CertificateNotFound: Secret cert: "+c.want) {
				t.Errorf("nodes are told %v, and it is told %q, want %q", linesOf(r), said, c.want)
			}
			for _, secret := range append(bytes.Fields(c.key), []byte(base64.StdEncoding.EncodeToString(c.key))) {
				if len(secret) > 6 && bytes.Contains([]byte(said), secret) {
					t.Errorf("%q quotes the key: %q", said, secret)
				}
			}
		})
	}
}

// longRSA is a key that is longer than a Secret may have, of two primes that take long to find.
func longRSA(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	const p, q = "" +
		"0c37b7109a115a5aadb19972b38a78bbbbbded99d31a093f76435a8321b8ef20675cd4d2ebe18bc89fa759d1d5287f53acdd" +
		"4b7939402c98f709dcec035c0269ff159b91a16b1c36d560ad8c645854221b61d67b9e74fccf3a3223ab3d5f18ac2c50f4aa" +
		"00491365ab7fa4adf75c18ebedf2e415809993b80dbc5815905ba1808aea24899caad1b48645ba644fffc4c717d70a12b873" +
		"f7a6353cad967bcbedfefdde6ffef27f39b17af41b44546f1a82754ee4248f4c55c28361a9d3b53f4ddb7e2c68688904e8a8" +
		"c881b46c4d0fb9f9a8cb621d70a677f3f2f29c5e50c1a1acff4e3923236e7eeabd46b3dbdbd474274b18d3a0b479fa9d9104" +
		"eced7a37b0a317",
		"0fd9e294f998ea4c8a0f56d97325da73b2600eae078902457089bbc47f187dcf01dd12689ec905e493e3f718a7a1bdc61f1a" +
			"a8051baf50e352459b230fbed6c57508d43e26d83b45ad779befc77381452557e11cd2f32285c1918f599403f9aded8cd7ba" +
			"27c4c16e99dadc9d661fb11647586b8b3fa0af526449ce354e20d2f1096b1f9674a702e5938df0675d86203ed1daeea4ecca" +
			"a3df78c32b7a8008e144936291dced558b78fcf44822dc41fba9b175c28b3f122cd5bffb6dbe3bec2df2ca44eb3189537c6e" +
			"c8ed947c6b24f18cc3aa0e13460c3f134255f4f65e8f6fa55116086253bc025e454cd7450f72b421c0b6400bf052fa9b7ed1" +
			"b6fe52099cee11"
	n, totient, one := big.NewInt(1), big.NewInt(1), big.NewInt(1)
	key := &rsa.PrivateKey{PublicKey: rsa.PublicKey{E: 65537}}
	for _, text := range []string{p, q} {
		prime, ok := new(big.Int).SetString(text, 16)
		if !ok {
			t.Fatalf("%s is no number", text)
		}
		key.Primes = append(key.Primes, prime)
		n.Mul(n, prime)
		totient.Mul(totient, new(big.Int).Sub(prime, one))
	}
	key.N, key.D = n, new(big.Int).ModInverse(big.NewInt(int64(key.E)), totient)
	key.Precompute()
	return key
}

func TestSecretsThatAreOfUse(t *testing.T) {
	elliptical, err := ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	common, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string]func() (chain, key []byte){
		"ECDSA":   func() (chain, key []byte) { return issue(t, elliptical) },
		"Ed25519": func() (chain, key []byte) { return issue(t, edwards) },
		"RSA":     func() (chain, key []byte) { return issue(t, common) },
	} {
		chain, key := of()
		got, err := certificateOf(secretOf("default.t1/cert", chain, key))
		if err != nil || got.ID != "default.t1/cert" || got.Tenant != "t1" || !bytes.Equal(got.Chain, chain) ||
			!bytes.Equal(got.Key, key) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
