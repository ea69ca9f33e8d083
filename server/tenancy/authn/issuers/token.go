package issuers

import (
	"encoding/json"

	"github.com/a4s-io/a4s/server/tenancy/authn"
)

// maxToken is how long a token may be of which anything is read.
const maxToken = 64 << 10

// Google's tokens can have its name without a scheme, as upstream knows.
const google, shortGoogle = "https://accounts.google.com", "accounts.google.com"

// says is what somebody's token says: it is not verified and chooses only who verifies it.
type says struct {
	Issuer   string `json:"iss"`
	Audience texts  `json:"aud"`
}

// texts are a text or several.
type texts []string

// UnmarshalJSON implements json.Unmarshaler.
func (t *texts) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*t = texts{""}
		return json.Unmarshal(data, &(*t)[0])
	}
	return json.Unmarshal(data, (*[]string)(t))
}

// untrusted reads whose a token says it is; ok is false for what is none.
func untrusted(token string) (s says, ok bool) {
	if len(token) > maxToken || !authn.Unverified(token, &s) {
		return s, false
	}
	if s.Issuer == shortGoogle {
		s.Issuer = google
	}
	return s, s.Issuer != ""
}
