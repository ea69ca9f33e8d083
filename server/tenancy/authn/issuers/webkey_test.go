package issuers

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"math/big"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	jose "gopkg.in/go-jose/go-jose.v2"
	testclock "k8s.io/utils/clock/testing"
)

// TestKeysAreReadInBoundedTime: of a key that is too large nothing is computed, whatever it says; a check of the
// private one here takes long. What is good beside it counts.
func TestKeysAreReadInBoundedTime(t *testing.T) {
	r, err := rsa.GenerateKey(rand.Reader, minBits)
	if err != nil {
		t.Fatal(err)
	}
	private := func(bytes int) map[string]any {
		odd := make([]byte, bytes)
		for i := range odd {
			odd[i] = 0xff
		}
		p := segment(odd[:bytes/2])
		n := new(big.Int).SetBytes(odd[:bytes/2])
		return map[string]any{"kty": "RSA", "use": "sig", "kid": "private", "n": segment(n.Mul(n, n).Bytes()),
			"e": "AQAB", "d": segment(odd), "p": p, "q": p}
	}
	public := func(change func(w map[string]any)) map[string]any {
		w := web("good", &r.PublicKey)
		change(w)
		return w
	}
	of := func(curve elliptic.Curve) map[string]any {
		k, err := ecdsa.GenerateKey(curve, rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		point, err := k.PublicKey.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		size := len(point) / 2
		return map[string]any{"kty": "EC", "kid": "good", "crv": curve.Params().Name, "x": segment(point[1 : 1+size]),
			"y": segment(point[1+size:])}
	}
	off := of(elliptic.P256())
	off["y"] = off["x"]
	short := of(elliptic.P384())
	short["crv"] = "P-521"
	unknown := of(elliptic.P256())
	unknown["crv"] = "P-257"
	large := &rsa.PublicKey{N: new(big.Int).Lsh(big.NewInt(1), maxBits), E: 65537}
	for what, c := range map[string]struct {
		keys []map[string]any
		good int
	}{
		"RSA":                 {[]map[string]any{public(func(map[string]any) {})}, 1},
		"curves":              {[]map[string]any{of(elliptic.P256()), of(elliptic.P384()), of(elliptic.P521())}, 3},
		"other points":        {[]map[string]any{off, short, unknown}, 0},
		"a curve without one": {[]map[string]any{{"kty": "EC", "crv": "P-256"}}, 0},
		"private":             {[]map[string]any{private(minBits / 8), public(func(map[string]any) {})}, 1},
		"private and large":   {[]map[string]any{private(maxBody / 4), public(func(map[string]any) {})}, 1},
		"large":               {[]map[string]any{web("", large)}, 0},
		"the largest":         {[]map[string]any{web("", &rsa.PublicKey{N: new(big.Int).Rsh(large.N, 1), E: 3})}, 1},
		"a large exponent":    {[]map[string]any{public(func(w map[string]any) { w["e"] = "AQAD" })}, 0},
		"a very large one":    {[]map[string]any{public(func(w map[string]any) { w["e"] = w["n"] })}, 0},
		"an exponent of 1":    {[]map[string]any{public(func(w map[string]any) { w["e"] = "AQ" })}, 0},
		"a long ID": {[]map[string]any{public(func(w map[string]any) { w["kid"] = strings.Repeat("x", maxID+1) })},
			0},
		"to encrypt":            {[]map[string]any{public(func(w map[string]any) { w["use"] = "enc" })}, 0},
		"with certificates":     {[]map[string]any{public(func(w map[string]any) { w["x5c"] = []string{"x"} })}, 1},
		"of another type":       {[]map[string]any{public(func(w map[string]any) { w["kty"] = "OKP" })}, 0},
		"numbers that are none": {[]map[string]any{public(func(w map[string]any) { w["n"] = "%" })}, 0},
	} {
		var set []json.RawMessage
		for _, k := range c.keys {
			raw, err := json.Marshal(k)
			if err != nil {
				t.Fatal(err)
			}
			set = append(set, raw)
		}
		if found := usable(set); len(found) != c.good ||
			slices.ContainsFunc(found, func(k key) bool { return k.id == "private" }) {
			t.Errorf("%s: %+v", what, found)
		}
	}
}

// tried is a key that counts how often it is tried, and is that of no token.
type tried struct {
	times *int
	name  string
}

func (k tried) Equal(o crypto.PublicKey) bool { return o == k }

func (k tried) VerifyPayload([]byte, []byte, jose.SignatureAlgorithm) error {
	*k.times++
	return errSignature
}

// TestFewKeysAreTried: a token that says no key is tried with few, and with the same only once.
func TestFewKeysAreTried(t *testing.T) {
	token := func(header string) string {
		return segment([]byte(header)) + "." + segment([]byte(`{}`)) + "." + segment([]byte("x"))
	}
	const named, unnamed = `{"alg":"RS256","kid":"1"}`, `{"alg":"RS256"}`
	for what, c := range map[string]struct {
		header string
		ids    []string
		tries  int
		err    error
	}{
		"its own":              {named, []string{"1", "2", "3", "4", "5"}, 1, errSignature},
		"none":                 {named, []string{"2", "3"}, 0, errSignature},
		"many of its ID":       {named, []string{"1", "1", "1", "1", "1", "1"}, mostTried, errSignature},
		"without an ID":        {unnamed, []string{"1", "2", "3", "4"}, mostTried, errSignature},
		"without one of many":  {unnamed, []string{"1", "2", "3", "4", "5"}, 0, errNoID},
		"without keys to have": {unnamed, nil, 0, errSignature},
	} {
		times := 0
		now := testclock.NewFakePassiveClock(time.Now())
		name := "a"
		k := &keys{clock: now, tell: func(error) {}, fetch: func(context.Context) (found []key, _ error) {
			for _, id := range c.ids {
				found = append(found, key{id: id, key: tried{&times, name}})
			}
			return found, nil
		}}
		check := func(when string, tries int) {
			t.Helper()
			times = 0
			if _, err := k.VerifySignature(t.Context(), token(c.header)); !errors.Is(err, c.err) || times != tries {
				t.Errorf("%s, %s: %v, tried %d keys", what, when, err, times)
			}
		}
		check("at first", c.tries)
		check("again", c.tries)
		now.SetTime(now.Now().Add(askEvery))
		check("the same keys", c.tries)
		name = "b"
		now.SetTime(now.Now().Add(askEvery))
		check("others", 2*c.tries)
		check("others again", c.tries)
	}
}

// TestNobodyWaitsForLong: who waits for a provider does not wait for ever, whatever holds its answer up.
func TestNobodyWaitsForLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		k := &keys{clock: testclock.NewFakePassiveClock(time.Now()), tell: func(error) {},
			fetch: func(context.Context) ([]key, error) {
				<-release
				return nil, nil
			}}
		if _, _, err := k.next(t.Context()); !errors.Is(err, errSlow) || k.waiting != 0 {
			t.Errorf("%v, %d wait", err, k.waiting)
		}
		close(release)
	})
}
