package proxy

import (
	"net/http"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/a4s-io/a4s/internal/joinapi"
)

// pathChange is an IngressPathChange. Its paths are escaped.
type pathChange struct {
	// full is the new path, "" if only a prefix is replaced: its depth is how many elements it has.
	full   string
	prefix string
	depth  int
}

// newPathChange returns nil if nothing changes.
func newPathChange(told *joinapi.IngressPathChange, depth int) *pathChange {
	switch {
	case told == nil:
		return nil
	case told.Full != nil:
		return &pathChange{full: escapedPath("/" + strings.TrimPrefix(*told.Full, "/"))}
	case told.Prefix != nil:
		prefix := escapedPath("/" + strings.Trim(*told.Prefix, "/"))
		return &pathChange{prefix: strings.TrimSuffix(prefix, "/"), depth: depth}
	}
	return nil
}

// of returns the escaped path that a request has from now on. A prefix is replaced in the path by which the
// router found it, without dots and empty elements: they would lead out of the new prefix.
func (c *pathChange) of(requested *url.URL) string {
	escaped := sentPath(requested)
	if escaped == "" { // of "GET http://host"
		escaped = "/"
	}
	switch {
	case c == nil:
		return escaped
	case c.full != "":
		return c.full
	}
	rest, slash := elements(escaped)
	return joined(c.prefix, rest[min(c.depth, len(rest)):], slash)
}

// joined is a path of a prefix, which is empty or ends without a slash, and of what elements returned.
func joined(prefix string, rest []string, slash string) string {
	if len(rest) > 0 {
		// An escaped slash may be before it. The prefix ends at a plain one.
		rest[0] = "/" + rest[0][separator(rest[0]):]
		return prefix + strings.Join(rest, "") + slash
	}
	if slash != "" || prefix == "" {
		return prefix + "/"
	}
	return prefix
}

// resolveDots gives a URL the path by which the router found its route, if that has dots: what they lead to may
// be of another route, and a backend may follow them. Other paths stay as they were sent.
func resolveDots(of *url.URL) {
	for element := range strings.SplitSeq(of.Path, "/") {
		if element == "." || element == ".." {
			rest, slash := elements(sentPath(of))
			setPath(of, joined("", rest, slash))
			return
		}
	}
}

// elements are those that path.Clean leaves of an escaped path when it is decoded. Each has the slash before it
// and is escaped as it was sent, as is the slash at the end, if there is one.
func elements(escaped string) (found []string, slash string) {
	for escaped != "" {
		end := separator(escaped)
		begin := end
		for end < len(escaped) && separator(escaped[end:]) == 0 {
			end++
		}
		element, name := escaped[:end], escaped[begin:end]
		escaped, slash = escaped[end:], ""
		if decoded, err := url.PathUnescape(name); err == nil {
			name = decoded
		}
		switch name {
		case "":
			slash = element
		case ".":
		case "..":
			found = found[:max(0, len(found)-1)]
		default:
			found = append(found, element)
		}
	}
	return found, slash
}

// separator is how long the slash is with which a path begins, 0 if there is none.
func separator(escaped string) int {
	switch {
	case strings.HasPrefix(escaped, "/"):
		return len("/")
	case len(escaped) >= len("%2F") && strings.EqualFold(escaped[:len("%2F")], "%2F"):
		return len("%2F")
	}
	return 0
}

// setPath gives a URL an escaped path.
func setPath(of *url.URL, escaped string) {
	decoded, err := url.PathUnescape(escaped)
	if err != nil {
		decoded = escaped // and net/url escapes it again, as the two do not fit
	}
	of.Path, of.RawPath = decoded, escaped
}

// sentPath is the escaped path of a URL as it was sent. If it has a byte that should be escaped and is not, net/url
// would escape it anew, and all that the client has escaped would be so no more.
func sentPath(of *url.URL) string {
	if decoded, err := url.PathUnescape(of.RawPath); err != nil || decoded != of.Path {
		return of.EscapedPath()
	}
	return escape(of.RawPath, func(rest string) bool {
		return rest[0] == '[' || rest[0] == ']' || rest[0] == '%' || plainInPath(rest[0])
	})
}

// plainInPath is whether a byte of a path need not be escaped.
func plainInPath(b byte) bool {
	return b > ' ' && b <= '~' && strings.IndexByte("\"#%<>?[\\]^`{|}", b) < 0
}

// escapedPath escapes what must be escaped in a path that may be escaped already.
func escapedPath(path string) string {
	return escape(path, func(rest string) bool {
		if rest[0] == '%' {
			_, err := url.PathUnescape(rest[:min(len(rest), len("%2F"))])
			return err == nil
		}
		return plainInPath(rest[0])
	})
}

// escapedQuery escapes what a query must not have and net/http lets pass. A "#" would end it.
func escapedQuery(query string) string {
	return escape(query, func(rest string) bool {
		return rest[0] > ' ' && rest[0] <= '~' && strings.IndexByte("\"#<>\\", rest[0]) < 0
	})
}

// escape escapes bytes unless they are fine, which is asked for each with what comes after it.
func escape(text string, fine func(rest string) bool) string {
	const digits = "0123456789ABCDEF"
	var escaped strings.Builder
	for i := range len(text) {
		if c := text[i]; fine(text[i:]) {
			escaped.WriteByte(c)
		} else {
			escaped.Write([]byte{'%', digits[c>>4], digits[c&15]})
		}
	}
	return escaped.String()
}

// rewrite is an IngressRewrite. Its host may be empty, its path nil.
type rewrite struct {
	host string
	path *pathChange
}

func newRewrite(told *joinapi.IngressRewrite, depth int) *rewrite {
	if told == nil {
		return nil
	}
	return &rewrite{host: validHost(told.Host), path: newPathChange(told.Path, depth)}
}

// change changes what the backend sees.
func (w *rewrite) change(out *http.Request) {
	if w == nil {
		return
	}
	if w.host != "" {
		out.Host = w.host
	}
	if w.path != nil {
		setPath(out.URL, w.path.of(out.URL))
	}
}

// validHost returns a name without a port, or "" if it is none.
func validHost(name string) string {
	if strings.ContainsAny(name, ":[]") || !httpguts.ValidHostHeader(name) {
		return ""
	}
	return name
}
