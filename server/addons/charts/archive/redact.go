package archive

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// check refuses a place whose errors could have credentials in them that are not found as such.
func check(where string) error {
	if !isURL(where) && !isOCI(where) {
		return nil
	}
	u, err := url.Parse(where)
	if err != nil {
		return fmt.Errorf("%w: it is no URL", ErrSource)
	}
	if isOCI(where) && u.User != nil {
		return fmt.Errorf("%w: there are credentials in it; want them in spec.authSecret or "+
			"spec.dockerRegistrySecret", ErrSource)
	}
	return nil
}

// redacted is a text whose URLs have neither the credentials that may be in them, nor queries, which can be
// signatures.
func redacted(text string) string {
	places := regexp.MustCompile(`(?i)[a-z][a-z0-9+.-]*://[^\s"<>]*`)
	return places.ReplaceAllStringFunc(text, func(found string) string {
		u, err := url.Parse(found)
		if strings.HasPrefix(found, ownFiles) {
			return found // which is no URL, and of this server
		} else if err != nil {
			scheme, _, _ := strings.Cut(found, "://")
			return scheme + "://..."
		}
		if u.User == nil && u.RawQuery == "" && u.Fragment == "" {
			return found
		}
		if u.User != nil {
			u.User = url.User("xxxxx")
		}
		u.Fragment, u.RawFragment = "", ""
		if u.RawQuery != "" {
			u.RawQuery = "..."
		}
		return u.String()
	})
}

// quiet is an error without credentials in its text.
type quiet struct{ err error }

// Error implements error.
func (q quiet) Error() string { return redacted(q.err.Error()) }

// Unwrap has errors.Is find what is in it.
func (q quiet) Unwrap() error { return q.err }
